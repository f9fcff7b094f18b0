package draft

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/printable"
)

// ErrExists reports that a file exists and may not be replaced.
var ErrExists = errors.New("exists already")

// Check returns an error if a config cannot be written to the path: [ErrExists] if a regular file
// exists and replace is false, and another error if something else exists there, such as a folder,
// a FIFO or a symbolic link, which is not followed.
func Check(path string, replace bool) error {
	info, err := os.Lstat(path)
	what := ""
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return reason(path, err)
	case info.Mode().IsRegular():
		if replace {
			return nil
		}
		return reason(path, ErrExists)
	case info.IsDir():
		what = "is a folder; specify a file"
	case info.Mode()&fs.ModeSymlink != 0:
		what = "is a symbolic link, which is not followed; specify the target file, or remove the link"
	default:
		what = "is not a regular file"
	}
	return reason(path, errors.New(what))
}

// Write writes the text of a config to the path, and creates missing folders. Only the owner can
// read the file, regardless of the mode of a replaced file. If replace is false, a file that was
// created after [Check] is not replaced.
func Write(path string, replace bool, text []byte) error {
	if err := Check(path, replace); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return reason(path, err)
	}
	if replace {
		return atomicfile.Replace(path, 0o600, text)
	}
	err := atomicfile.Create(path, 0o600, text)
	if errors.Is(err, fs.ErrExist) {
		return reason(path, ErrExists)
	}
	return err
}

// reason replaces the path in an error by its printable form, because the original may be long or
// malicious.
func reason(path string, err error) error {
	return fmt.Errorf("%s: %w", printable.Line(path, 200), printable.Unnamed(err))
}
