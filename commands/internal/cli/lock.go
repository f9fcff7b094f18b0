package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/printable"
)

// LockFlags contains the flag of commands that publish what differs from a lock file.
type LockFlags struct {
	file string
}

// Add adds the flag to a command.
func (o *LockFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.file, "lock", "", "lock `FILE` (default: mcptrack.lock beside the config)")
	_ = cmd.MarkFlagFilename("lock", "lock")
}

// path returns the path of the lock file, or an empty string if there is no config beside which it could be.
func (o *LockFlags) path(g *Globals, cfg *config.Config) string {
	if o.file != "" || g.Demo() || cfg.Path == "" {
		return o.file
	}
	return filepath.Join(filepath.Dir(cfg.Path), guard.FileName)
}

// Compares reports whether there is a lock file, or the flag names one.
func (o *LockFlags) Compares(g *Globals, cfg *config.Config) bool {
	if o.file != "" {
		return true
	}
	_, err := os.Lstat(o.path(g, cfg))
	return err == nil
}

// Open returns what an engine compares servers with, or nil if there cannot be a lock file. The file that
// the flag names must exist. Otherwise the engine waits for the file.
func (o *LockFlags) Open(env *Env, g *Globals, cfg *config.Config, log *slog.Logger) (*engine.Lock, error) {
	path := o.path(g, cfg)
	if path == "" {
		return nil, nil
	}
	guarded, err := guard.New(guard.Options{Path: path, Required: o.file != "", Logger: log})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &Failure{Exit: ExitConfig, Code: "lock_missing", Hint: "mcptrack lock writes what the servers offer now into it",
			Err: fmt.Errorf("there is no lock %s", printable.Line(path, 200))}
	}
	if err != nil {
		return nil, err
	}
	return &engine.Lock{Guard: guarded, Launch: env.Launch}, nil
}
