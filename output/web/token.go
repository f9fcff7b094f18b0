package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/mcptrack/mcptrack/core/secretfile"
)

const (
	minToken = 16 // characters
	maxToken = 1024
	minBits  = 128 // entropy for addresses that other machines can reach
)

// Token is a secret that clients present. Only its digest is stored, so that it cannot
// be printed, and a comparison takes the same time for any guess.
type Token struct {
	digest *[sha256.Size]byte
	bits   int // estimated entropy
}

// NewToken makes a token from its text: 16 to 1,024 visible ASCII characters.
func NewToken(text string) (Token, error) {
	if len(text) < minToken || len(text) > maxToken {
		return Token{}, fmt.Errorf("a token must have %d to %d characters, this one has %d", minToken, maxToken, len(text))
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return Token{}, errors.New("a token must consist of visible ASCII characters")
		}
	}
	d := sha256.Sum256([]byte(text))
	return Token{&d, entropy(text)}, nil
}

// entropy estimates the entropy of a random text in bits from its length and its
// characters. Texts with few different characters have none.
func entropy(text string) int {
	const minDistinct = 8
	distinct := make(map[rune]bool)
	hexadecimal, upper, lower, digit, sign := true, 0, 0, 0, 0
	for _, r := range text {
		distinct[r] = true
		switch {
		case 'a' <= r && r <= 'z':
			lower = 26
			hexadecimal = hexadecimal && r <= 'f'
		case 'A' <= r && r <= 'Z':
			upper = 26
			hexadecimal = hexadecimal && r <= 'F'
		case '0' <= r && r <= '9':
			digit = 10
		case r != '-': // as in a UUID
			sign = 32
			hexadecimal = false
		}
	}
	if len(distinct) < minDistinct {
		return 0
	}
	if hexadecimal {
		return 4 * (len(text) - strings.Count(text, "-"))
	}
	return int(float64(len(text)) * math.Log2(float64(upper+lower+digit+sign)))
}

// LoadToken reads the token in a file that only its owner may read; see
// [secretfile.Read]. Errors about the file and its content are of type *[OptionError].
func LoadToken(file string) (Token, error) {
	text, err := secretfile.Read(file)
	if refused, ok := errors.AsType[*secretfile.RefusedError](err); ok {
		return Token{}, &OptionError{"token-file", refused.Error()}
	} else if err != nil {
		return Token{}, fmt.Errorf("read the token: %w", err)
	}
	t, err := NewToken(text)
	if err != nil {
		return Token{}, &OptionError{"token-file", (&secretfile.RefusedError{Path: file, Problem: err.Error()}).Error()}
	}
	return t, nil
}

// Set reports whether there is a token.
func (t Token) Set() bool { return t.digest != nil }

// Is reports whether text is the token; false if none is set.
func (t Token) Is(text string) bool {
	d := sha256.Sum256([]byte(text))
	return t.digest != nil && subtle.ConstantTimeCompare(d[:], t.digest[:]) == 1
}

// String does not reveal the token.
func (t Token) String() string {
	if t.Set() {
		return "[redacted]"
	}
	return ""
}

// GoString is String.
func (t Token) GoString() string { return t.String() }
