package process

import (
	"crypto/rand"
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

	"github.com/mcptrack/mcptrack/core/printable"
)

// StartError says why a command could not be started. It names the command and the directory, never
// the arguments or the environment, which may contain secrets. Unwrap returns [exec.ErrNotFound],
// [fs.ErrNotExist], [fs.ErrPermission] or the system's error.
type StartError struct {
	Command string
	Reason  string
	Err     error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("start %q: %s", e.Command, e.Reason)
}

func (e *StartError) Unwrap() error { return e.Err }

// LimitError means that a limit of this process or its container leaves no room for another server.
// Unwrap returns the system's error.
type LimitError struct {
	What  string // such as "too many open files"
	Limit int    // 0: unknown
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

// resolve returns the file to run, or an error that says what is missing: for a missing directory,
// exec reports "no such file" with the command's name.
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
	if runtime.GOOS == "windows" {
		path, err := exec.LookPath(spec.Command) // handles PATHEXT
		if err != nil {
			return spec.cannotStart(exec.ErrNotFound, "command not found in PATH")
		}
		return path, nil
	}
	if strings.ContainsRune(spec.Command, filepath.Separator) {
		file := spec.Command
		if !filepath.IsAbs(file) {
			file = filepath.Join(spec.Dir, file)
		}
		switch info, err := os.Stat(file); {
		case errors.Is(err, fs.ErrNotExist):
			return spec.cannotStart(fs.ErrNotExist, "no such file")
		case err != nil:
			return spec.cannotStart(err, "%v", printable.Unnamed(err))
		case info.IsDir():
			return spec.cannotStart(syscall.EISDIR, "is a directory")
		case info.Mode()&0o111 == 0:
			return spec.cannotStart(fs.ErrPermission, "is not executable (chmod +x?)")
		}
		return spec.Command, nil
	}
	return spec.lookPath()
}

// lookPath searches the child's PATH, not ours. It ignores relative entries, which would run
// whatever is in the working directory.
func (spec Spec) lookPath() (string, error) {
	path := ""
	for _, kv := range spec.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v // the last entry wins, as in exec
		}
	}
	blocked := ""
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		file := filepath.Join(dir, spec.Command)
		info, err := os.Stat(file)
		if err != nil || info.IsDir() {
			continue
		}
		if info.Mode()&0o111 != 0 {
			return file, nil
		}
		blocked = file
	}
	switch {
	case blocked != "":
		return spec.cannotStart(fs.ErrPermission, "%q is not executable (chmod +x?)", blocked)
	case path == "":
		return spec.cannotStart(exec.ErrNotFound, "command not found: PATH is empty")
	default:
		return spec.cannotStart(exec.ErrNotFound, "command not found in PATH")
	}
}

// startError converts a system error.
func (spec Spec) startError(err error) error {
	reason := printable.Unnamed(err).Error()
	switch limit, _ := errors.AsType[*LimitError](err); {
	case limit != nil:
		reason = limit.Error()
	case errors.Is(err, fs.ErrNotExist):
		reason = "the file exists, but the interpreter in its first line (#!) or its loader does not"
	case errors.Is(err, syscall.ENOEXEC):
		reason = "is neither a program for this machine nor a script with a #! line"
	case errors.Is(err, fs.ErrPermission):
		reason = "permission denied"
	}
	return &StartError{Command: spec.Command, Reason: reason, Err: err}
}

// inherited returns the variables that a child inherits from the tracker: locations of programs,
// homes and temporary files, language and time zone, what Windows programs need to start, and
// proxies. All other variables are withheld, above all the tracker's own secrets; a server that
// needs more names it in its config. A proxy URL may contain a password, but most servers cannot
// work without it.
func inherited() []string {
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
// os.LookupEnv) finds, and from own, which takes precedence and may contain any key. The result is
// sorted, so equal inputs give equal environments.
func Environ(lookup func(string) (string, bool), own map[string]string) []string {
	env := maps.Clone(own)
	if env == nil {
		env = make(map[string]string)
	}
	for _, key := range inherited() {
		if _, ok := env[key]; ok {
			continue
		}
		// A value that begins with "()" is an exported shell function: code, not data.
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

// NonceKey is the environment variable that marks every child: <pid of the tracker>-<its start
// time>-<random>. The start time is in clock ticks since boot on Linux, and 0 elsewhere.
const NonceKey = "MCPTRACK_CHILD"

func newNonce() string { return ownMark() + "-" + rand.Text() }

// ownMark returns the prefix of the marks of this process's children.
func ownMark() string { return fmt.Sprintf("%d-%d", os.Getpid(), ownStart()) }

// marked returns env with the mark, replacing any other mark: a tracker may itself be a tracked
// server.
func marked(env []string, nonce string) []string {
	out := make([]string, 0, len(env)+1)
	for _, kv := range env {
		if !strings.HasPrefix(kv, NonceKey+"=") {
			out = append(out, kv)
		}
	}
	return append(out, NonceKey+"="+nonce)
}
