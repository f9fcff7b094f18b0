package commands

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
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

// open opens the log that the flags name, to write it. keep says how durable it is and how much
// of it is kept.
func (j *journalFlags) open(ctx context.Context, env *Env, log *slog.Logger, keep retention) (journal.Log, error) {
	if err := j.checkPlace(); err != nil {
		return nil, err
	}
	if j.nats != "" {
		l, err := natslog.Open(ctx, natslog.Options{URL: j.nats, Credentials: j.credentials, Retain: keep.age, RetainBytes: keep.bytes, KeepContent: keep.content, Logger: log})
		if err != nil {
			return nil, err
		}
		return l, nil
	}
	dir, err := j.directory(env)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"store", "webhooks.json"} {
		if _, err := os.Lstat(filepath.Join(dir, name)); err == nil {
			log.Warn("what an older mcptrack stored is not used; remove it if you do not need it", "path", filepath.Join(dir, name))
		}
	}
	l, err := sqlitelog.Open(ctx, sqlitelog.Options{Dir: dir, Durability: keep.durability, Retain: keep.age, RetainBytes: keep.bytes, KeepContent: keep.content, Logger: log})
	if errors.Is(err, journal.ErrLocked) {
		return nil, &failure{exit: exitFailed, code: "locked", err: err,
			hint: "read the events of the other mcptrack at its /events, or choose another directory with --data-dir"}
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// stored opens the log that the flags name, to read it, also while another process writes it.
func (j *journalFlags) stored(ctx context.Context, env *Env, log *slog.Logger) (l journal.Log, err error) {
	if err := j.checkPlace(); err != nil {
		return nil, err
	}
	place := "the NATS cluster"
	if j.nats != "" {
		l, err = natslog.Open(ctx, natslog.Options{URL: j.nats, Credentials: j.credentials, Existing: true, Logger: log})
	} else {
		if place, err = j.directory(env); err != nil {
			return nil, err
		}
		l, err = sqlitelog.Open(ctx, sqlitelog.Options{Dir: place, Existing: true, Logger: log})
		place = printable.Line(place, 200)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &failure{exit: exitFailed, code: "nothing_stored", err: fmt.Errorf("no events are stored in %s", place),
			hint: "use the --data-dir or --nats that serve-sse was started with; a copy of a log needs events.db-wal, too (mcptrack help serving)"}
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// existing is stored for a command that is of use without stored events: nil means that there
// are none. That is an error only if the flags name a place.
func (j *journalFlags) existing(ctx context.Context, env *Env, log *slog.Logger) (journal.Log, error) {
	l, err := j.stored(ctx, env, log)
	if err != nil && j.dir == "" && j.nats == "" {
		return nil, nil
	}
	return l, err
}

func (j *journalFlags) checkPlace() error {
	if j.nats != "" && j.dir != "" {
		return usage("--data-dir and --nats cannot be used together")
	}
	return nil
}

// directory is the directory of the local log.
func (j *journalFlags) directory(env *Env) (string, error) {
	if j.dir != "" {
		return j.dir, nil
	}
	if dir := env.stateDir(); dir != "" {
		return dir, nil
	}
	return "", usage("no home directory to store events in; set --data-dir")
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

// dirOf is the directory of the state of one command; "" if there is none.
func (e *Env) dirOf(command string) string {
	if dir := e.stateDir(); dir != "" {
		return filepath.Join(dir, command)
	}
	return ""
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
