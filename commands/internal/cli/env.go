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
	// Out and Err must be safe for concurrent use, as files are: a command logs from
	// several goroutines.
	Out, Err io.Writer
	// OutTTY and ErrTTY report whether Out and Err are terminals. Columns returns the
	// current width of Out; nil: it is unknown.
	OutTTY, ErrTTY bool
	Columns        func() int
	LookupEnv      func(string) (string, bool)
	// Terminal opens the user's terminal for a question; an error: there is none to ask on. nil:
	// there never is one.
	Terminal func() (*Terminal, error)
	// Executable is the path of this program, which starts the demo server.
	Executable string
	// Reloads returns a channel that receives when the user asks for the config and other
	// files to be read again (SIGHUP). It is never closed; each call returns another one. A
	// command that calls Reloads handles SIGHUP; any other command is ended by it. nil: there
	// are no such requests.
	Reloads func() <-chan struct{}
	// OpenBrowser opens a URL in the user's browser; nil: there is none.
	OpenBrowser func(url string) error
	// Dial connects to servers; nil: [session.Dial].
	Dial session.DialFunc
	// Version is the version that the version command prints and servers receive.
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

// Width is the width of stdout if it is a terminal, 0 if it is none or unknown.
func (e *Env) Width() int {
	if !e.OutTTY || e.Columns == nil {
		return 0
	}
	return e.Columns()
}

func (e *Env) Getenv(key string) string {
	v, _ := e.LookupEnv(key)
	return v
}

// CacheDir is the directory of the cached names for completion, "" if there is none.
func (e *Env) CacheDir() string {
	dir := e.Getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(dir) {
		home := e.Getenv("HOME")
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".cache")
	}
	return filepath.Join(dir, "mcptrack")
}

// StateDir is where events are stored by default, or a folder in it; "" if there is no such directory.
func (e *Env) StateDir(sub ...string) string {
	dir := e.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home := e.Getenv("HOME")
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return filepath.Join(append([]string{dir, "mcptrack"}, sub...)...)
}
