package commands

import (
	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/journal"
)

// retentionFlags say how durable the log is and how much of it is kept.
type retentionFlags struct {
	durability  string
	retain      string
	retainBytes string

	keep journal.Options // the flags, parsed
}

func (o *retentionFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.durability, "durability", "always", "`WHEN` an event counts as stored: always, interval or os")
	f.StringVar(&o.retain, "retain", "7d", "`DURATION` that events are kept")
	f.StringVar(&o.retainBytes, "retain-bytes", "1GiB", "`BYTES` of events that are kept")
	_ = cmd.RegisterFlagCompletionFunc("durability", cobra.FixedCompletions([]string{"always", "interval", "os"}, cobra.ShellCompDirectiveNoFileComp))
}

func (o *retentionFlags) parse() (err error) {
	o.keep.Durability = journal.Durability(o.durability)
	if o.keep.Durability != journal.Always && o.keep.Durability != journal.Interval && o.keep.Durability != journal.OS {
		return usage("unknown --durability %q; choose always, interval or os", o.durability)
	}
	if o.keep.Retain, err = parseAge("retain", o.retain); err != nil {
		return err
	}
	o.keep.RetainBytes, err = parseBytes("retain-bytes", o.retainBytes)
	return err
}
