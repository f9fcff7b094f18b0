package gateway

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/printable"
)

// lockFlags contains the flags for what must be approved before it is served.
type lockFlags struct {
	lock    string
	enforce string
}

func (o *lockFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.lock, "lock", "", "lock `FILE` (default: mcptrack.lock beside the config)")
	_ = cmd.MarkFlagFilename("lock", "lock")
	cli.AddChoice(cmd, &o.enforce, "enforce", string(lock.Hold), "`ACTION` for what differs from the lock: audit serves and reports it, hold follows the config, block serves nothing of the server where hold applies", enforcements()...)
}

func enforcements() []string {
	return []string{string(lock.Audit), string(lock.Hold), string(lock.Block)}
}

func (o *lockFlags) parse() error { return cli.OneOf("enforce", o.enforce, enforcements()...) }

// guard opens the lock. It must exist if one of the flags was set. Without a config file there is none
// by default.
func (o *lockFlags) guard(g *cli.Globals, cfg *config.Config, log *slog.Logger, set func(string) bool) (*guard.Guard, error) {
	if o.lock == "" && g.Demo() {
		return nil, nil
	}
	path := cmp.Or(o.lock, filepath.Join(filepath.Dir(cfg.Path), guard.FileName))
	out, err := guard.New(guard.Options{Path: path, Required: o.lock != "" || set("enforce"), Enforce: lock.Action(o.enforce), Logger: log})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &cli.Failure{Exit: cli.ExitConfig, Code: "lock_missing", Hint: "mcptrack lock writes what the servers offer now into it",
			Err: fmt.Errorf("there is no lock %s", printable.Line(path, 200))}
	}
	return out, err
}
