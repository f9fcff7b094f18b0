package process

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/mcptrack/mcptrack/core/internal/program"
	"github.com/mcptrack/mcptrack/core/printable"
)

// StartError reports why a command could not be started. It contains the command and the directory,
// but never the arguments or the environment, which may contain secrets. Unwrap returns
// [exec.ErrNotFound], [fs.ErrNotExist], [fs.ErrPermission] or the system's error.
type StartError struct {
	Command string
	Reason  string
	Err     error

	missing bool // whether Reason names the command, because it is not in PATH
}

func (e *StartError) Error() string {
	if e.missing {
		return e.Reason
	}
	return fmt.Sprintf("cannot start %q: %s", e.Command, e.Reason)
}

func (e *StartError) Unwrap() error { return e.Err }

// LimitError reports that a resource limit of this process or its container does not allow another
// server to start. Unwrap returns the system's error.
type LimitError struct {
	What  string // a description, such as "too many open files"
	Limit int    // the limit; 0 if unknown
	Err   error
}

func (e *LimitError) Error() string {
	if e.Limit > 0 {
		return fmt.Sprintf("%s (limit %d)", e.What, e.Limit)
	}
	return e.What
}

func (e *LimitError) Unwrap() error { return e.Err }

func (spec Spec) cannotStart(err error, format string, args ...any) (string, error) {
	return "", &StartError{Command: spec.Command, Reason: fmt.Sprintf(format, args...), Err: err}
}

// resolve returns the path of the file to run, or an error that reports what is missing. Without
// this check, exec would report a missing directory as "no such file" together with the command's
// name.
func (spec Spec) resolve() (string, error) {
	if spec.Command == "" {
		return spec.cannotStart(exec.ErrNotFound, "no command given")
	}
	if spec.Dir != "" {
		switch info, err := os.Stat(spec.Dir); {
		case errors.Is(err, fs.ErrNotExist):
			return spec.cannotStart(fs.ErrNotExist, "working directory %q does not exist", spec.Dir)
		case err != nil:
			return spec.cannotStart(err, "working directory %q: %v", spec.Dir, printable.Unnamed(err))
		case !info.IsDir():
			return spec.cannotStart(syscall.ENOTDIR, "working directory %q is not a directory", spec.Dir)
		}
	}
	file, err := program.Find(spec.Command, spec.Dir, spec.path())
	if errors.Is(err, exec.ErrNotFound) {
		reason := fmt.Sprintf("there is no program %q %s", spec.Command, strings.TrimPrefix(err.Error(), "is not "))
		return "", &StartError{Command: spec.Command, Reason: reason, Err: exec.ErrNotFound, missing: true}
	}
	if err == nil {
		file, err = filepath.Abs(file) // the child would look for it in its own working directory
	}
	if err != nil {
		return spec.cannotStart(err, "%v", err)
	}
	return file, nil
}

// path returns the PATH of the child.
func (spec Spec) path() (path string) {
	for _, kv := range spec.Env {
		if name, v, _ := strings.Cut(kv, "="); name == "PATH" || runtime.GOOS == "windows" && strings.EqualFold(name, "PATH") {
			path = v // the last entry wins, as in os/exec
		}
	}
	return path
}

// startError converts a system error into a StartError.
func (spec Spec) startError(err error) error {
	reason := printable.Unnamed(err).Error()
	switch limit, _ := errors.AsType[*LimitError](err); {
	case limit != nil:
		reason = limit.Error()
	case errors.Is(err, fs.ErrNotExist):
		reason = "the file exists, but the interpreter in its first line (#!) or its loader does not"
	case errors.Is(err, syscall.ENOEXEC):
		reason = "is neither a program for this machine nor a script with a #! line"
	case errors.Is(err, syscall.EAGAIN):
		reason = "too many processes"
	case errors.Is(err, fs.ErrPermission):
		reason = "permission denied"
	}
	return &StartError{Command: spec.Command, Reason: reason, Err: err}
}

// Inherited returns the names of the variables that a child inherits from the tracker: paths of
// programs, home and temporary directories, language and time zone, proxies, and what Windows
// programs need to start. All other variables are withheld, because they may contain the tracker's
// own secrets; if a server needs more, its config entry must specify them. A proxy URL may contain
// a password, but most servers cannot work without the proxy.
func Inherited() []string {
	return []string{
		"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TERM", "TZ",
		"TMPDIR", "TMP", "TEMP",
		"LANG", "LANGUAGE", "LC_ALL", "LC_ADDRESS", "LC_COLLATE", "LC_CTYPE",
		"LC_IDENTIFICATION", "LC_MEASUREMENT", "LC_MESSAGES", "LC_MONETARY",
		"LC_NAME", "LC_NUMERIC", "LC_PAPER", "LC_TELEPHONE", "LC_TIME",
		"XDG_CACHE_HOME", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME", "XDG_DATA_DIRS",
		"XDG_DATA_HOME", "XDG_RUNTIME_DIR", "XDG_STATE_HOME",
		"SystemRoot", "SystemDrive", "windir", "ComSpec", "PATHEXT", "APPDATA",
		"LOCALAPPDATA", "ProgramData", "ProgramFiles", "ProgramFiles(x86)",
		"USERPROFILE", "USERNAME", "HOMEDRIVE", "HOMEPATH", "NUMBER_OF_PROCESSORS",
		"PROCESSOR_ARCHITECTURE",
		"NODE_EXTRA_CA_CERTS", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY",
		"http_proxy", "https_proxy", "all_proxy", "no_proxy",
	}
}

// Environ builds the environment of a child from the inherited variables that lookup (such as
// os.LookupEnv) finds, and from own, which takes precedence and may contain any variable. The
// result is sorted, so equal inputs produce equal environments.
func Environ(lookup func(string) (string, bool), own map[string]string) []string {
	env := maps.Clone(own)
	if env == nil {
		env = make(map[string]string)
	}
	for _, key := range Inherited() {
		if _, ok := env[key]; ok {
			continue
		}
		// A value that starts with "()" is an exported shell function: code, not data.
		if v, ok := lookup(key); ok && !strings.HasPrefix(v, "()") {
			env[key] = v
		}
	}
	out := make([]string, 0, len(env))
	for _, key := range slices.Sorted(maps.Keys(env)) {
		out = append(out, key+"="+env[key])
	}
	return out
}
