package gateway

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/guard"
)

// lockFlags contains the flags for what must be approved before it is served.
type lockFlags struct {
	cli.LockFlags
	enforce string
}

func (o *lockFlags) add(cmd *cobra.Command) {
	o.Add(cmd)
	cli.AddChoice(cmd, &o.enforce, "enforce", string(lock.Hold), "`ACTION` for what differs from the lock: audit serves and reports it, hold follows the config, block serves nothing of the server where hold applies", enforcements()...)
}

func enforcements() []string {
	return []string{string(lock.Audit), string(lock.Hold), string(lock.Block)}
}

func (o *lockFlags) parse() error { return cli.OneOf("enforce", o.enforce, enforcements()...) }

// guard opens the lock. It must exist if one of the flags was set.
func (o *lockFlags) guard(g *cli.Globals, cfg *config.Config, log *slog.Logger, set func(string) bool) (*guard.Guard, error) {
	return o.Guard(g, cfg, guard.Options{Required: set("enforce"), Enforce: lock.Action(o.enforce), Logger: log})
}
