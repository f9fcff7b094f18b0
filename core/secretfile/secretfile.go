// Package secretfile reads secrets, such as a token or a key, from files that others
// cannot read.
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

// MaxSize is the most bytes that [Read] and [ReadLines] accept; MaxFile that of [ReadAll].
const (
	MaxSize = 8 << 10
	MaxFile = 1 << 20
)

// RefusedError says what is wrong with a file. It never includes any of its content.
type RefusedError struct{ Path, Problem string }

func (e *RefusedError) Error() string { return printable.Line(e.Path, 256) + ": " + e.Problem }

// Read returns the one line of a file that only its owner may read (mode 0600 or less;
// not checked on Windows), without the white space around it. Content other than one line of
// visible ASCII characters is a *[RefusedError], as everything is that [Load] refuses.
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
// at most MaxFile bytes.
func ReadAll(path string) ([]byte, error) { return Load(path, MaxFile, 0o077) }

// read returns the text of a file that only its owner may read.
func read(path string) (string, error) {
	data, err := Load(path, MaxSize, 0o077)
	text := strings.TrimSpace(string(data))
	if err == nil && text == "" {
		err = &RefusedError{path, "the file is empty"}
	}
	return text, err
}

// Load returns the content of a regular file of at most limit bytes whose mode has none of
// the forbidden bits (not checked on Windows). A file that cannot be read, a FIFO and a
// device are a *[RefusedError].
func Load(path string, limit int64, forbidden fs.FileMode) ([]byte, error) {
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
		return refuse("%v", printable.Unnamed(err))
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return refuse("%v", printable.Unnamed(err))
	case !info.Mode().IsRegular():
		return refuse("not a regular file")
	case runtime.GOOS != "windows" && info.Mode().Perm()&forbidden != 0:
		return refuse("mode %04o lets others read it; run chmod 600", info.Mode().Perm())
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err != nil {
		return refuse("%v", printable.Unnamed(err))
	}
	if int64(len(data)) > limit {
		return refuse("the file has more than %d bytes", limit)
	}
	return data, nil
}

func hidden(s string) bool {
	return strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}
