package commands

import (
	"io"
	"path/filepath"
	"runtime/debug"

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

// width is the width of stdout if it is a terminal, 0 if it is none or unknown.
func (e *Env) width() int {
	if !e.OutTTY || e.Columns == nil {
		return 0
	}
	return e.Columns()
}

func (e *Env) getenv(key string) string {
	v, _ := e.LookupEnv(key)
	return v
}

// cacheDir is the directory of the cached names for completion, "" if there is none.
func (e *Env) cacheDir() string {
	dir := e.getenv("XDG_CACHE_HOME")
	if !filepath.IsAbs(dir) {
		home := e.getenv("HOME")
		if home == "" {
			return ""
		}
		dir = filepath.Join(home, ".cache")
	}
	return filepath.Join(dir, "mcptrack")
}

// Version returns the version of this build: that of the module, else the commit.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		return v
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel+" + s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}
