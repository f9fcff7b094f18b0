package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"
	"strings"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Bounds of a token's length. Below the lower one it could be guessed.
const (
	minToken = 16
	maxToken = 1024
)

// Token is a secret that clients present. Only its digest is kept, so that it
// cannot be printed, and comparing takes as long for any guess.
type Token struct{ digest *[sha256.Size]byte }

// NewToken makes a token of its text: 16 to 1,024 visible ASCII characters.
func NewToken(text string) (Token, error) {
	if len(text) < minToken || len(text) > maxToken {
		return Token{}, fmt.Errorf("a token has %d to %d characters, this one has %d", minToken, maxToken, len(text))
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return Token{}, errors.New("a token has visible ASCII characters only")
		}
	}
	d := sha256.Sum256([]byte(text))
	return Token{&d}, nil
}

// LoadToken reads the token in a file that only its owner may read (mode 0600 or
// less; not checked on Windows). White space around it does not count. Errors
// about the file's mode and content are of type *[OptionError].
func LoadToken(file string) (Token, error) {
	refuse := func(format string, args ...any) (Token, error) {
		return Token{}, &OptionError{"token-file", printable.Line(file, 256) + ": " + fmt.Sprintf(format, args...)}
	}
	// A FIFO would block the open for ever: look first, and again at what was opened.
	if info, err := os.Stat(file); err == nil && !info.Mode().IsRegular() {
		return refuse("is no regular file")
	}
	f, err := os.Open(file)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return refuse("no such file")
		}
		return Token{}, fmt.Errorf("read the token: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return Token{}, fmt.Errorf("read the token: %w", err)
	case !info.Mode().IsRegular():
		return refuse("is no regular file")
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return refuse("mode is %04o, others could read it; chmod 600", info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxToken+64))
	if err != nil {
		return Token{}, fmt.Errorf("read the token: %w", err)
	}
	t, err := NewToken(strings.TrimSpace(string(text)))
	if err != nil {
		return refuse("%v", err)
	}
	return t, nil
}

// Set reports whether there is a token.
func (t Token) Set() bool { return t.digest != nil }

// Is reports whether text is the token. Nothing is while none is set.
func (t Token) Is(text string) bool {
	d := sha256.Sum256([]byte(text))
	return t.digest != nil && subtle.ConstantTimeCompare(d[:], t.digest[:]) == 1
}

// String says no more than whether there is one.
func (t Token) String() string {
	if t.Set() {
		return "[redacted]"
	}
	return ""
}

// GoString is String.
func (t Token) GoString() string { return t.String() }
