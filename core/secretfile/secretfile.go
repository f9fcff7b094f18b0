// Package secretfile reads a secret, such as a token or a key, from a file of its own.
package secretfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/printable"
)

// MaxSize is the longest secret of lines, in bytes; MaxFile that of any form.
const (
	MaxSize = 8 << 10
	MaxFile = 1 << 20
)

// RefusedError says what is wrong with a file. It never contains what the file does.
type RefusedError struct{ Path, Problem string }

func (e *RefusedError) Error() string { return printable.Line(e.Path, 256) + ": " + e.Problem }

// Read returns the one line of a file that only its owner may read (mode 0600 or less;
// not checked on Windows), without the white space around it. A missing file, one that
// others may read, a FIFO or a device, and content other than one line of visible ASCII
// characters are a *[RefusedError].
func Read(path string) (string, error) {
	secret, err := read(path)
	if err == nil && hidden(secret) {
		return "", &RefusedError{path, "the content is not one line of visible ASCII characters"}
	}
	return secret, err
}

// ReadLines is Read for a file of several lines, each of words of visible ASCII
// characters. Empty lines are left out.
func ReadLines(path string) ([][]string, error) {
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	var lines [][]string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if slices.ContainsFunc(words, hidden) {
			return nil, &RefusedError{path, "the content is not lines of visible ASCII characters"}
		}
		if len(words) > 0 {
			lines = append(lines, words)
		}
	}
	return lines, nil
}

// ReadAll returns the content of a file that only its owner may read, of any form and of
// at most MaxFile bytes. A file that [Read] refuses for what it is, it refuses too.
func ReadAll(path string) ([]byte, error) {
	text, err := content(path, MaxFile)
	if err == nil && len(text) > MaxFile {
		return nil, &RefusedError{path, fmt.Sprintf("the file has more than %d bytes", MaxFile)}
	}
	return text, err
}

// read returns the content of the file without the white space around it.
func read(path string) (string, error) {
	text, err := content(path, MaxSize)
	secret := strings.TrimSpace(string(text))
	switch {
	case err != nil:
		return "", err
	case secret == "":
		return "", &RefusedError{path, "the file is empty"}
	case len(text) > MaxSize:
		return "", &RefusedError{path, fmt.Sprintf("the file has more than %d bytes", MaxSize)}
	}
	return secret, nil
}

// content returns at most limit+1 bytes of the file.
func content(path string, limit int64) ([]byte, error) {
	refuse := func(format string, args ...any) ([]byte, error) {
		return nil, &RefusedError{path, fmt.Sprintf(format, args...)}
	}
	// Opening a FIFO would block forever: look first, and again at what was opened.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return refuse("not a regular file")
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return refuse("no such file")
	} else if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return refuse("not a regular file")
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return refuse("mode %04o lets others read it; run chmod 600", info.Mode().Perm())
	}
	return io.ReadAll(io.LimitReader(f, limit+1))
}

func hidden(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
