package process

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"github.com/mcptrack/mcptrack/core/printable"
)

// StartError says why a command could not be started. It names the command and
// the directory, never the arguments or the environment: they may hold secrets.
// Unwrap gives [exec.ErrNotFound], [fs.ErrNotExist], [fs.ErrPermission] or the
// system's error.
type StartError struct {
	Command string
	Reason  string
	Err     error
}

func (e *StartError) Error() string {
	return fmt.Sprintf("start %q: %s", e.Command, e.Reason)
}

func (e *StartError) Unwrap() error { return e.Err }

// resolve returns the file to run, or an error that says clearly what is missing: for a missing
// directory, exec reports "no such file" with the command's name.
func resolve(spec Spec) (string, error) {
	fail := func(err error, format string, args ...any) (string, error) {
		return "", &StartError{Command: spec.Command, Reason: fmt.Sprintf(format, args...), Err: err}
	}
	if spec.Command == "" {
		return fail(exec.ErrNotFound, "no command given")
	}
	if spec.Dir != "" {
		switch info, err := os.Stat(spec.Dir); {
		case errors.Is(err, fs.ErrNotExist):
			return fail(fs.ErrNotExist, "working directory %q does not exist", spec.Dir)
		case err != nil:
			return fail(err, "working directory %q: %v", spec.Dir, printable.Unnamed(err))
		case !info.IsDir():
			return fail(syscall.ENOTDIR, "working directory %q is not a directory", spec.Dir)
		}
	}
	if runtime.GOOS == "windows" {
		path, err := exec.LookPath(spec.Command) // it handles PATHEXT
		if err != nil {
			return fail(exec.ErrNotFound, "command not found in PATH")
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
			return fail(fs.ErrNotExist, "no such file")
		case err != nil:
			return fail(err, "%v", printable.Unnamed(err))
		case info.IsDir():
			return fail(syscall.EISDIR, "is a directory")
		case info.Mode()&0o111 == 0:
			return fail(fs.ErrPermission, "is not executable (chmod +x?)")
		}
		return spec.Command, nil
	}
	return lookPath(spec, fail)
}

// lookPath searches the child's PATH, not ours. It ignores relative entries, which would run
// whatever is in the working directory.
func lookPath(spec Spec, fail func(error, string, ...any) (string, error)) (string, error) {
	path := ""
	for _, kv := range spec.Env {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			path = v // the last one counts, as in exec
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
		return fail(fs.ErrPermission, "%q is not executable (chmod +x?)", blocked)
	case path == "":
		return fail(exec.ErrNotFound, "command not found: PATH is empty")
	default:
		return fail(exec.ErrNotFound, "command not found in PATH")
	}
}

// startError converts an error of the system.
func startError(spec Spec, err error) error {
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
