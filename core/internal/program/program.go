// Package program finds the file that a command runs.
package program

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/mcptrack/mcptrack/core/printable"
)

// An Error says why a command cannot be run, as a predicate of the command. It wraps [exec.ErrNotFound] if
// there is no such program in PATH, or else the system's error.
type Error struct {
	Reason string
	Err    error
}

func (e *Error) Error() string { return e.Reason }

func (e *Error) Unwrap() error { return e.Err }

// errNotExecutable reports a file that this user may not run. A file in a folder that this user may not
// search is not known to exist.
var errNotExecutable = &Error{"is not executable (chmod +x?)", fs.ErrPermission}

// HasPath reports whether a command is the path of a file instead of the name of a program.
func HasPath(command string) bool {
	return strings.ContainsRune(command, filepath.Separator) || strings.Contains(command, "/")
}

// File returns the file that a command with a path refers to in a working directory.
func File(command, dir string) string {
	if dir == "" || filepath.IsAbs(command) {
		return command
	}
	return filepath.Join(dir, command)
}

// Find returns the file that a command runs: a path is relative to a working directory, and a name is searched
// in path. Relative folders in path are ignored, because they could run any file in the working directory.
// Errors are of type [*Error].
func Find(command, dir, path string) (string, error) {
	if HasPath(command) {
		return runnable(File(command, dir))
	}
	err := error(&Error{"is not in PATH", exec.ErrNotFound})
	if path == "" {
		err = &Error{"is not in PATH, which is empty", exec.ErrNotFound}
	}
	for _, folder := range filepath.SplitList(path) {
		if !filepath.IsAbs(folder) {
			continue
		}
		file, problem := runnable(filepath.Join(folder, command))
		if problem == nil {
			return file, nil
		}
		if errors.Is(problem, errNotExecutable) {
			err = problem
		}
	}
	return "", err
}

// runnable returns the file at a path, to which Windows adds an extension.
func runnable(file string) (string, error) {
	found, err := exec.LookPath(file)
	switch {
	case err == nil || errors.Is(err, exec.ErrDot):
		return found, nil
	case errors.Is(err, fs.ErrNotExist):
		return "", &Error{"does not exist", fs.ErrNotExist}
	case errors.Is(err, syscall.EISDIR):
		return "", &Error{"is a directory", syscall.EISDIR}
	case errors.Is(err, fs.ErrPermission):
		if _, err := os.Stat(file); err == nil {
			return "", errNotExecutable
		}
	}
	return "", &Error{printable.Unnamed(err).Error(), err}
}
