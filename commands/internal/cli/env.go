// Package cli is what every command uses of the process and of the command line: the environment
// (env.go), global flags (globals.go), exit codes and errors (errors.go), the config and the user's
// approval of it (config.go, permission.go, question.go), and the flags that several commands share.
// It imports no command.
//
// Library: briandowns/spinner for progress on a terminal (maintained, Apache 2.0).
package cli

import (
	"io"
	"path/filepath"

	"github.com/mcptrack/mcptrack/core/session"
)

// Env is everything that a command uses of its process.
type Env struct {
	In io.Reader
	// Out and Err must be safe for concurrent use, like files: a command logs from several goroutines.
	Out, Err io.Writer
	// OutTTY and ErrTTY say whether Out and Err are terminals. Columns returns the current width of Out;
	// nil: unknown.
	OutTTY, ErrTTY bool
	Columns        func() int
	LookupEnv      func(string) (string, bool)
	// Terminal opens the user's terminal for a question. An error, or a nil Terminal, means that there is
	// no terminal to ask on.
	Terminal func() (*Terminal, error)
	// Executable is the path of this program, which starts the demo server.
	Executable string
	// Reloads returns a channel that receives when the user requests to reread the config and other files
	// (SIGHUP). Each call returns another channel, which is never closed. A command that calls Reloads
	// handles SIGHUP; SIGHUP ends any other command. nil: there are no such requests.
	Reloads func() <-chan struct{}
	// OpenBrowser opens a URL in the user's browser; nil: there is none.
	OpenBrowser func(url string) error
	// Dial connects to servers; nil: [session.Dial].
	Dial session.DialFunc
	// Version is the version that the version command prints and that servers receive.
	Version string
}

func (e *Env) reloads() <-chan struct{} {
	if e.Reloads == nil {
		return nil
	}
	return e.Reloads()
}

// Dialer returns the function that connects to servers.
func (e *Env) Dialer() session.DialFunc {
	if e.Dial == nil {
		return session.Dial
	}
	return e.Dial
}

// Width returns the width of stdout; 0 if it is not a terminal, or unknown.
func (e *Env) Width() int {
	if !e.OutTTY || e.Columns == nil {
		return 0
	}
	return e.Columns()
}

// Getenv returns a variable of the environment; "" if it is not set.
func (e *Env) Getenv(key string) string {
	v, _ := e.LookupEnv(key)
	return v
}

// CacheDir returns the directory of the names cached for completion; "" if there is no home directory.
func (e *Env) CacheDir() string { return e.dir("XDG_CACHE_HOME", ".cache") }

// StateDir returns the directory where events are stored by default, or a folder in it; "" if there is no
// home directory.
func (e *Env) StateDir(sub ...string) string {
	dir := e.dir("XDG_STATE_HOME", ".local/state")
	if dir == "" {
		return ""
	}
	return filepath.Join(append([]string{dir}, sub...)...)
}

// dir returns our folder in the directory that a variable names, else in one of the home directory.
func (e *Env) dir(variable, inHome string) string {
	dir := e.Getenv(variable)
	if !filepath.IsAbs(dir) {
		home := e.Getenv("HOME")
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, filepath.FromSlash(inHome))
	}
	return filepath.Join(dir, "mcptrack")
}
