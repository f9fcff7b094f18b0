package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// JournalFlags contains the flags of commands that open the durable log.
type JournalFlags struct {
	Dir         string
	NATS        string
	credentials string
}

func (j *JournalFlags) Add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&j.Dir, "data-dir", "", "`DIR` of stored events")
	f.StringVar(&j.NATS, "nats", "", "`URL` of a NATS cluster with stored events")
	f.StringVar(&j.credentials, "nats-credentials", "", "`FILE` with credentials for --nats")
	_ = cmd.MarkFlagDirname("data-dir")
}

// Open opens the log that the flags specify for writing. keep specifies its durability and
// retention.
func (j *JournalFlags) Open(ctx context.Context, env *Env, log *slog.Logger, keep Retention) (journal.Log, error) {
	if err := j.checkPlace(); err != nil {
		return nil, err
	}
	if j.NATS != "" {
		l, err := natslog.Open(ctx, natslog.Options{URL: j.NATS, Credentials: j.credentials, Retain: keep.age, RetainBytes: keep.bytes, KeepContent: keep.Content, Logger: log})
		if err != nil {
			return nil, j.noCluster(err)
		}
		return l, nil
	}
	dir, err := j.directory(env)
	if err != nil {
		return nil, err
	}
	l, err := sqlitelog.Open(ctx, sqlitelog.Options{Dir: dir, Durability: keep.durability, Retain: keep.age, RetainBytes: keep.bytes, KeepContent: keep.Content, Logger: log})
	if errors.Is(err, journal.ErrLocked) {
		return nil, &Failure{Exit: ExitFailed, Code: "locked", Err: err,
			Hint: "read the events of the other mcptrack at its /events, or choose another directory with --data-dir"}
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// Stored opens the log that the flags specify for reading, even while another process writes to it.
func (j *JournalFlags) Stored(ctx context.Context, env *Env, log *slog.Logger) (l journal.Log, err error) {
	if err := j.checkPlace(); err != nil {
		return nil, err
	}
	place := "the NATS cluster"
	if j.NATS != "" {
		l, err = natslog.Open(ctx, natslog.Options{URL: j.NATS, Credentials: j.credentials, Existing: true, Logger: log})
	} else {
		if place, err = j.directory(env); err != nil {
			return nil, err
		}
		l, err = sqlitelog.Open(ctx, sqlitelog.Options{Dir: place, Existing: true, Logger: log})
		place = printable.Line(place, 200)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Failure{Exit: ExitFailed, Code: "nothing_stored", Err: fmt.Errorf("no events are stored in %s", place),
			Hint: "use the --data-dir or --nats that serve-sse was started with; a copy of a log also needs events.db-wal (mcptrack help serving)"}
	}
	if err != nil {
		return nil, j.noCluster(err)
	}
	return l, nil
}

// noCluster converts the error for a NATS cluster that cannot be reached to a failure that names its
// URL without credentials. It returns other errors unchanged.
func (j *JournalFlags) noCluster(err error) error {
	if !errors.Is(err, natslog.ErrUnreachable) {
		return err
	}
	var shown []string
	for server := range strings.SplitSeq(j.NATS, ",") {
		server = strings.TrimSpace(server)
		scheme, host, full := strings.Cut(server, "://")
		if !full {
			scheme, host = "nats", server
		}
		host, _, _ = strings.Cut(host[strings.LastIndex(host, "@")+1:], "/")
		host, _, _ = strings.Cut(host, "?")
		shown = append(shown, scheme+"://"+host)
	}
	cause := strings.TrimPrefix(printable.Reason(err, 500), natslog.ErrUnreachable.Error()+": ")
	return Unreachable("start the cluster, or correct --nats", "cannot connect to NATS at %s: %s", Join(shown, 5), cause)
}

// Existing opens the log like Stored, for a command that does not need stored events. It returns a
// nil log if there is none, which is an error only if the flags specify a location.
func (j *JournalFlags) Existing(ctx context.Context, env *Env, log *slog.Logger) (journal.Log, error) {
	l, err := j.Stored(ctx, env, log)
	if err != nil && j.Dir == "" && j.NATS == "" {
		return nil, nil
	}
	return l, err
}

func (j *JournalFlags) checkPlace() error {
	if j.NATS != "" && j.Dir != "" {
		return Usage("--data-dir and --nats cannot be used together")
	}
	return nil
}

// directory returns the path of the local log.
func (j *JournalFlags) directory(env *Env) (string, error) {
	if j.Dir != "" {
		return j.Dir, nil
	}
	if dir := env.StateDir(); dir != "" {
		return dir, nil
	}
	return "", Usage("no home directory to store events in; set --data-dir")
}

// Place returns the location of the log for a message.
func (j *JournalFlags) Place(env *Env) string {
	if j.NATS != "" {
		return "the NATS cluster"
	}
	dir, _ := j.directory(env) // fails if there is no location
	return printable.Line(dir, 200)
}

// ParseAge parses a duration, which may be specified in days, such as 7d.
func ParseAge(flag, s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || n <= 0 || n > 36500 {
			return 0, Usage("invalid --%s %q; expected a duration such as 12h or 7d", flag, printable.Line(s, 40))
		}
		return time.Duration(n * float64(24*time.Hour)), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, Usage("invalid --%s %q; expected a duration such as 12h or 7d", flag, printable.Line(s, 40))
	}
	return d, nil
}

// RetentionFlags contains the flags that specify the durability and retention of a log.
type RetentionFlags struct {
	durability  string
	retain      string
	retainBytes string

	Keep Retention // parsed values of the flags
}

// Retention specifies the durability of a log, and how much of it is kept; see [sqlitelog.Options].
type Retention struct {
	durability     journal.Durability
	age            time.Duration
	bytes, Content int64
}

// Retained returns a retention of at most this many bytes of events, and of no texts.
func Retained(bytes int64) Retention { return Retention{bytes: bytes} }

func (o *RetentionFlags) Add(cmd *cobra.Command) {
	f := cmd.Flags()
	AddChoice(cmd, &o.durability, "durability", "always", "`WHEN` an event counts as stored: always or interval", "always", "interval")
	_ = f.MarkHidden("durability") // see mcptrack help serving
	f.StringVar(&o.retain, "retain", "7d", "keep events for this `DURATION`")
	f.StringVar(&o.retainBytes, "retain-bytes", "1GiB", "keep at most this many `BYTES` of events")
}

func (o *RetentionFlags) Parse() (err error) {
	o.Keep.durability = journal.Durability(o.durability)
	if err = OneOf("durability", o.durability, string(journal.Always), string(journal.Interval)); err != nil {
		return err
	}
	if o.Keep.age, err = ParseAge("retain", o.retain); err != nil {
		return err
	}
	o.Keep.bytes, err = StoredBytes("retain-bytes", o.retainBytes)
	return err
}

// StoredBytes parses the value of a flag that specifies the size of stored data, such as 1GiB.
func StoredBytes(flag, s string) (int64, error) {
	n, ok := config.ParseBytes(s, 1<<50)
	if !ok {
		return 0, Usage("invalid --%s %q; expected a number of bytes such as 512MiB or 1GiB", flag, printable.Line(s, 40))
	}
	return n, nil
}

// MemoryLog returns the options for a log in memory, such as the log of a demo. content limits the
// total size of text versions in bytes.
func MemoryLog(content int64) journal.MemoryOptions {
	return journal.MemoryOptions{Keep: 16 << 10, KeepBytes: 32 << 20, KeepContent: content}
}

// Written reports whether another process is writing to the log, so that new events can be followed
// there.
func (j *JournalFlags) Written(env *Env) bool {
	if j.NATS != "" {
		return true
	}
	dir, err := j.directory(env)
	return err == nil && sqlitelog.InUse(dir)
}
