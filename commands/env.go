package commands

import (
	"io"
	"path/filepath"
	"runtime/debug"

	"github.com/mcptrack/mcptrack/core/session"
)

// Env is all that a command knows of the world.
type Env struct {
	In       io.Reader
	Out, Err io.Writer
	// OutTTY and ErrTTY say whether Out and Err are terminals; Width is that of
	// Out in columns, 0 if not known.
	OutTTY, ErrTTY bool
	Width          int
	LookupEnv      func(string) (string, bool)
	// Executable is this program, for starting the demo server.
	Executable string
	// Reloads returns the channel that is sent to, and never closed, when the user
	// asks for the config to be read again (SIGHUP). To call it is to take that over:
	// a command that does not is ended by SIGHUP. nil: nobody asks.
	Reloads func() <-chan struct{}
	// Dial connects to servers; nil: [session.Dial].
	Dial session.DialFunc
	// Version is what the version command and servers are told.
	Version string
}

func (e *Env) reloads() <-chan struct{} {
	if e.Reloads == nil {
		return nil
	}
	return e.Reloads()
}

func (e *Env) getenv(key string) string {
	v, _ := e.LookupEnv(key)
	return v
}

// cacheDir is where catalogs for completion are kept, "" if there is no such place.
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

// Version is the version of this build: the module's, or the commit's.
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
