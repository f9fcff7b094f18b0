// Package cli provides what all commands share: the process environment (env.go), global flags
// (globals.go), exit codes and errors (errors.go), the config and the user's approval of it
// (config.go, permission.go, question.go), and the flags that several commands share. It imports no
// command.
package cli

import (
	"io"
	"path/filepath"

	"github.com/mcptrack/mcptrack/core/session"
)

// Env contains everything that a command uses from its process.
type Env struct {
	In io.Reader
	// Out and Err must be safe for concurrent use, as files are, because a command logs from
	// several goroutines.
	Out, Err io.Writer
	// OutTTY and ErrTTY report whether Out and Err are terminals. Size returns the current size of the
	// terminal, or zeros if it is unknown; nil if it is never known.
	OutTTY, ErrTTY bool
	Size           func() (columns, rows int)
	LookupEnv      func(string) (string, bool)
	// Terminal opens the user's terminal to ask a question. If it is nil or returns an error,
	// questions cannot be asked.
	Terminal func() (*Terminal, error)
	// Page shows a text on the terminal that may be longer than a screen, and returns when the user has seen
	// it; nil if stdout is no terminal.
	Page func(text string)
	// Executable is the path of this program, which starts the demo server.
	Executable string
	// Reloads returns a channel that receives a value when the user requests that the config and
	// other files be reread (SIGHUP). Each call returns a new channel, which is never closed. Once
	// a command has called Reloads, SIGHUP no longer ends it. If nil, reloads cannot be requested.
	Reloads func() <-chan struct{}
	// OpenBrowser opens a URL in the user's browser; nil if there is no browser.
	OpenBrowser func(url string) error
	// Dial connects to servers. If nil, [session.Dial] is used.
	Dial session.DialFunc
	// Version is the program version that the version command prints and that is sent to servers.
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

// Width returns the width of stdout in columns, or 0 if stdout is not a terminal or its width is
// unknown.
func (e *Env) Width() int { return e.width(e.OutTTY) }

// errWidth is Width for stderr.
func (e *Env) errWidth() int { return e.width(e.ErrTTY) }

func (e *Env) width(tty bool) int {
	if !tty || e.Size == nil {
		return 0
	}
	columns, _ := e.Size()
	return columns
}

// Getenv returns the value of an environment variable, or "" if it is not set.
func (e *Env) Getenv(key string) string {
	v, _ := e.LookupEnv(key)
	return v
}

// CacheDir returns the directory for the names cached for completion, or "" if there is no home
// directory.
func (e *Env) CacheDir() string { return e.dir("XDG_CACHE_HOME", ".cache") }

// StateDir returns the directory in which events are stored by default, joined with sub, or "" if
// there is no home directory.
func (e *Env) StateDir(sub ...string) string {
	dir := e.dir("XDG_STATE_HOME", ".local/state")
	if dir == "" {
		return ""
	}
	return filepath.Join(append([]string{dir}, sub...)...)
}

// dir returns mcptrack's folder in the directory that an environment variable specifies, or
// otherwise in inHome under the home directory.
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
