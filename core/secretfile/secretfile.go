// Package secretfile reads secrets, such as tokens and keys, from files that other users cannot
// read.
package secretfile

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/internal/regularfile"
	"github.com/mcptrack/mcptrack/core/printable"
)

// MaxSize is the maximum file size in bytes for [Read] and [ReadLines], and MaxFile that for
// [ReadAll].
const (
	MaxSize = 8 << 10
	MaxFile = 1 << 20
)

// RefusedError reports why a secret file was rejected. It never contains any of the file's content.
type RefusedError struct{ Path, Problem string }

func (e *RefusedError) Error() string { return printable.Line(e.Path, 256) + ": " + e.Problem }

// Read returns the only line of a file, without surrounding white space. It returns a
// *[RefusedError] if the content is not a single line of visible ASCII characters, if users other
// than the owner can read the file (its mode must be 0600 or stricter; not checked on Windows), or
// if [Load] rejects it.
func Read(path string) (string, error) {
	secret, err := read(path)
	if err == nil && !printable.VisibleASCII(secret) {
		return "", &RefusedError{path, "the content is not one line of visible ASCII characters"}
	}
	return secret, err
}

// ReadLines is like Read, but accepts several lines, each consisting of words of visible ASCII
// characters. It skips empty lines.
func ReadLines(path string) ([][]string, error) {
	text, err := read(path)
	if err != nil {
		return nil, err
	}
	var lines [][]string
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if !printable.VisibleASCII(strings.Join(words, "")) {
			return nil, &RefusedError{path, "the content does not consist of lines of visible ASCII characters"}
		}
		if len(words) > 0 {
			lines = append(lines, words)
		}
	}
	return lines, nil
}

// ReadAll returns the content of a file of at most MaxFile bytes that only its owner can read. The
// content may be arbitrary.
func ReadAll(path string) ([]byte, error) { return Load(path, MaxFile, 0o077) }

// read returns the text of a file that only its owner can read.
func read(path string) (string, error) {
	data, err := Load(path, MaxSize, 0o077)
	text := strings.TrimSpace(string(data))
	if err == nil && text == "" {
		err = &RefusedError{path, "the file is empty"}
	}
	return text, err
}

// Load returns the content of a regular file of at most limit bytes. The file's mode must have none
// of the forbidden bits set (not checked on Windows). Load returns a *[RefusedError] if the file is
// not acceptable, for example because it is unreadable, a FIFO or a device.
func Load(path string, limit int64, forbidden fs.FileMode) ([]byte, error) {
	refuse := func(format string, args ...any) ([]byte, error) {
		return nil, &RefusedError{path, fmt.Sprintf(format, args...)}
	}
	data, info, err := regularfile.Read(path, limit)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return refuse("no such file")
	case err != nil:
		return refuse("%v", printable.Unnamed(err))
	case runtime.GOOS != "windows" && info.Mode().Perm()&forbidden != 0:
		return refuse("mode %04o lets other users read it; run chmod 600", info.Mode().Perm())
	}
	return data, nil
}

// KeySize is the length of a key in bytes.
const KeySize = 32

// Key returns the key stored in a file that only its owner can read. If the file does not exist,
// Key creates it with a random key; processes that do so simultaneously get the same key. The
// directory must exist. Key returns a *[RefusedError] if the file does not contain a key.
func Key(path string) ([]byte, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		key := make([]byte, KeySize)
		_, _ = rand.Read(key) // never fails
		err := atomicfile.Create(path, 0o600, []byte(base64.StdEncoding.EncodeToString(key)+"\n"))
		if !errors.Is(err, fs.ErrExist) {
			return key, err
		}
	}
	text, err := Read(path)
	if err != nil {
		return nil, err
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != KeySize {
		return nil, &RefusedError{Path: path, Problem: fmt.Sprintf("invalid key; expected %d bytes in base64 (if you remove the file, mcptrack creates a new key)", KeySize)}
	}
	return key, nil
}
