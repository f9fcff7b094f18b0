package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
)

// journalFlags are the flags of commands that open the durable log.
type journalFlags struct {
	dir         string
	nats        string
	credentials string
}

func (j *journalFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&j.dir, "data-dir", "", "`DIR` of the stored events (default: mcptrack in the XDG state directory)")
	f.StringVar(&j.nats, "nats", "", "`URL` of a NATS cluster to store events on instead")
	f.StringVar(&j.credentials, "nats-credentials", "", "`FILE` with the credentials for --nats")
	_ = cmd.MarkFlagDirname("data-dir")
}

// open opens the log that the flags name, with the other options of opts.
func (j *journalFlags) open(ctx context.Context, env *Env, log *slog.Logger, opts journal.Options) (*journal.Journal, error) {
	opts.Dir, opts.URL, opts.Credentials, opts.Logger = j.dir, j.nats, j.credentials, log
	if opts.URL != "" && opts.Dir != "" {
		return nil, usage("--data-dir and --nats cannot be used together")
	}
	if opts.URL == "" && opts.Dir == "" {
		if opts.Dir = env.stateDir(); opts.Dir == "" {
			return nil, usage("no home directory to store events in; set --data-dir")
		}
	}
	stored, err := journal.Open(ctx, opts)
	switch {
	case errors.Is(err, journal.ErrLocked):
		return nil, &failure{exit: exitFailed, code: "locked", err: err,
			hint: "read the events of the other mcptrack at its /events, or choose another directory with --data-dir"}
	case errors.Is(err, fs.ErrNotExist) && opts.Existing:
		place := "the NATS cluster"
		if opts.URL == "" {
			place = printable.Line(opts.Dir, 200)
		}
		return nil, &failure{exit: exitFailed, code: "nothing_stored", err: fmt.Errorf("no events are stored in %s", place),
			hint: "use the --data-dir or --nats that serve-sse was started with"}
	}
	return stored, err
}

// shared returns the log if other processes may use it as well; else nil.
func (j *journalFlags) shared(log *journal.Journal) *journal.Journal {
	if j.nats == "" {
		return nil
	}
	return log
}

// stateDir is where events are stored by default, "" if there is no such directory.
func (e *Env) stateDir() string {
	dir := e.getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home := e.getenv("HOME")
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(dir, "mcptrack")
}

// parseAge reads a duration that may also be in days, such as 7d.
func parseAge(flag, s string) (time.Duration, error) {
	if days, ok := strings.CutSuffix(s, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || n <= 0 || n > 36500 {
			return 0, usage("invalid --%s %q; expected a duration such as 12h or 7d", flag, printable.Line(s, 40))
		}
		return time.Duration(n * float64(24*time.Hour)), nil
	}
	d, err := time.ParseDuration(s)
	if err != nil || d <= 0 {
		return 0, usage("invalid --%s %q; expected a duration such as 12h or 7d", flag, printable.Line(s, 40))
	}
	return d, nil
}
