package commands

import (
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
)

// retentionFlags say how durable the log is and how much of it is kept.
type retentionFlags struct {
	durability  string
	retain      string
	retainBytes string

	keep retention // the flags, parsed
}

// retention says how durable a log is, and how much of it is kept; see [sqlitelog.Options].
type retention struct {
	durability     journal.Durability
	age            time.Duration
	bytes, content int64
}

func (o *retentionFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.durability, "durability", "always", "`WHEN` an event counts as stored: always, interval or os")
	f.StringVar(&o.retain, "retain", "7d", "`DURATION` that events are kept")
	f.StringVar(&o.retainBytes, "retain-bytes", "1GiB", "`BYTES` of events that are kept")
	_ = cmd.RegisterFlagCompletionFunc("durability", cobra.FixedCompletions([]string{"always", "interval", "os"}, cobra.ShellCompDirectiveNoFileComp))
}

func (o *retentionFlags) parse() (err error) {
	o.keep.durability = journal.Durability(o.durability)
	if o.keep.durability != journal.Always && o.keep.durability != journal.Interval && o.keep.durability != journal.OS {
		return usage("unknown --durability %q; choose always, interval or os", o.durability)
	}
	if o.keep.age, err = parseAge("retain", o.retain); err != nil {
		return err
	}
	o.keep.bytes, err = storedBytes("retain-bytes", o.retainBytes)
	return err
}

// storedBytes reads a flag with a size of what is stored, such as 1GiB.
func storedBytes(flag, s string) (int64, error) {
	n, ok := parseBytes(s, 1<<50)
	if !ok {
		return 0, usage("invalid --%s %q; expected a number of bytes such as 512MiB or 1GiB", flag, printable.Line(s, 40))
	}
	return n, nil
}
