package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/engine"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/printable"
)

// LockFlags contains the flag of all commands that use a lock file.
type LockFlags struct {
	File string // of the flag; empty by default
}

// Add adds the flag to a command.
func (o *LockFlags) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.File, "lock", "", "lock `FILE` (default: mcptrack.lock beside the config)")
	_ = cmd.MarkFlagFilename("lock", "lock")
}

// Path returns the path of the lock file, or an empty string if the flag is not set and there is no config
// file beside which the lock could be.
func (o *LockFlags) Path(g *Globals, cfg *config.Config) string {
	if o.File != "" || g.Demo() || cfg.Path == "" {
		return o.File
	}
	return guard.Beside(cfg.Path)
}

// Guard returns a guard with the lock file; nil if there cannot be one. The file that the flag names must
// exist. opts.Path and opts.Flags are set.
func (o *LockFlags) Guard(g *Globals, cfg *config.Config, opts guard.Options) (*guard.Guard, error) {
	if opts.Path = o.Path(g, cfg); opts.Path == "" && !opts.Required {
		return nil, nil
	}
	opts.Required, opts.Insecure = opts.Required || o.File != "", g.insecure
	opts.Flags = strings.Join(append(o.words(), g.configWords()...), " ")
	guarded, err := guard.New(opts)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, LockMissing(opts.Path)
	}
	return guarded, err
}

// words returns the flag for another command line, or nil if it is not set.
func (o *LockFlags) words() []string {
	if o.File == "" {
		return nil
	}
	return []string{"--lock", absoluteWord(o.File)}
}

// Open returns what an engine compares servers with, or nil if there cannot be a lock file. Unless the flag
// names the file, the engine waits for it. serves means that nothing of a server is used that is not approved.
func (o *LockFlags) Open(env *Env, g *Globals, cfg *config.Config, log *slog.Logger, serves bool) (*engine.Lock, error) {
	guarded, err := o.Guard(g, cfg, guard.Options{ReportOnly: !serves, Logger: log})
	if guarded == nil || err != nil {
		return nil, err
	}
	return &engine.Lock{Guard: guarded, Launch: env.Launch}, nil
}

// CheckLock returns the failure if other users can change the lock file, unless --insecure-config is set.
func CheckLock(g *Globals, path string) error {
	unsafe, ok := errors.AsType[*lock.FileError](lock.CheckAccess(path))
	if !ok || g.insecure {
		return nil
	}
	return &Failure{Exit: ExitConfig, Code: "lock_insecure", Err: errors.New(unsafe.Problem), Hint: unsafe.Advice + "; --insecure-config reads it anyway"}
}

// LockMissing is the error if there is no lock file, but a command needs one.
func LockMissing(path string) error {
	return &Failure{Exit: ExitConfig, Code: "lock_missing", Hint: "mcptrack lock writes what the servers offer now into it",
		Err: fmt.Errorf("there is no lock %s", printable.Line(cmp.Or(path, guard.FileName), 200))}
}
