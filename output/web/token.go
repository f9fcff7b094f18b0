package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/secretfile"
)

const (
	minToken = 16   // characters
	maxToken = 1024 // characters
	minBits  = 128  // entropy for addresses that other machines can reach
)

// Token is the set of secrets of which clients must present one: one secret, or several with
// names. Only digests of the secrets are stored, so that they cannot be printed, and a
// comparison takes the same time for any guess.
type Token struct {
	secrets []secret
	bits    int // estimated entropy of the weakest secret
}

type secret struct {
	name   string
	digest [sha256.Size]byte
	// principal is the principal of requests with it; see Token.Principal.
	principal string
	inPath    bool // it may also be the end of the path of an MCP endpoint
}

// DefaultName is the name of a secret without one.
const DefaultName = "default"

// NewToken makes a token from its text: 16 to 1,024 visible ASCII characters.
func NewToken(text string) (Token, error) { return Token{}.with(DefaultName, text, false) }

// with returns the token with one more secret. Several secrets may have the same name, such as
// an old secret and the new one that replaces it.
func (t Token) with(name, text string, inPath bool) (Token, error) {
	if len(text) < minToken || len(text) > maxToken {
		return Token{}, fmt.Errorf("a token must have %d to %d characters, this one has %d", minToken, maxToken, len(text))
	}
	for i := range len(text) {
		if text[i] <= ' ' || text[i] > '~' {
			return Token{}, errors.New("a token must consist of visible ASCII characters")
		}
	}
	if len(name) > maxName || strings.Trim(name, nameChars) != "" || name == text {
		return Token{}, fmt.Errorf("invalid name of a token; use at most %d letters, digits, ., _ and -", maxName)
	}
	if known := t.find(digest(text)).name; known != "" && known != name {
		return Token{}, fmt.Errorf("this token also belongs to %s; each client needs its own", known)
	}
	bits := entropy(text)
	if t.Set() {
		bits = min(bits, t.bits)
	}
	return Token{append(t.secrets[:len(t.secrets):len(t.secrets)], secret{name, digest(text), principal(name, text), inPath}), bits}, nil
}

// principal returns the principal of requests with a secret.
func principal(name, text string) string {
	if name == DefaultName {
		d := digest("principal " + text)
		return "secret " + hex.EncodeToString(d[:])
	}
	return "name " + name
}

const (
	maxName   = 32
	nameChars = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
)

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

// LoadToken reads the tokens in a file that only its owner may read; see
// [secretfile.ReadLines]. A line is TOKEN or NAME TOKEN. NAME identifies the client, to whose
// name its subscriptions belong: it should stay when the token is replaced. If the word path
// follows, the token may also be the end of the path of an MCP endpoint. Errors about the file
// and its content are of type *[OptionError].
func LoadToken(file string) (Token, error) {
	lines, err := secretfile.ReadLines(file)
	if err != nil {
		return Token{}, &OptionError{"token-file", err.Error()}
	}
	var t Token
	for i, words := range lines {
		name, inPath := DefaultName, len(words) > 1 && words[len(words)-1] == pathMark
		if inPath {
			words = words[:len(words)-1]
		}
		if len(words) == 2 {
			name = words[0]
		}
		err := errors.New("expected TOKEN or NAME TOKEN, optionally followed by the word path")
		if len(words) <= 2 {
			t, err = t.with(name, words[len(words)-1], inPath)
		}
		if err != nil {
			problem := err.Error()
			if len(lines) > 1 {
				problem = fmt.Sprintf("line %d: %s", i+1, problem)
			}
			return Token{}, &OptionError{"token-file", (&secretfile.RefusedError{Path: file, Problem: problem}).Error()}
		}
	}
	return t, nil
}

// Set reports whether there is at least one secret.
func (t Token) Set() bool { return len(t.secrets) > 0 }

// Is reports whether text is one of the secrets; false if none is set.
func (t Token) Is(text string) bool { return t.has(digest(text)) }

func (t Token) has(d [sha256.Size]byte) bool { return t.find(d).name != "" }

// find returns the secret with a digest, the zero value if there is none.
func (t Token) find(d [sha256.Size]byte) (found secret) {
	for _, s := range t.secrets {
		if s.is(d) {
			found = s
		}
	}
	return found
}

func digest(text string) [sha256.Size]byte { return sha256.Sum256([]byte(text)) }

func (s *secret) is(d [sha256.Size]byte) bool {
	return subtle.ConstantTimeCompare(d[:], s.digest[:]) == 1
}

// Holds reports whether one of the secrets has the given name.
func (t Token) Holds(name string) bool {
	return slices.ContainsFunc(t.secrets, func(s secret) bool { return s.name == name })
}

// Several reports whether the secrets have more than one name: then each name is a client of
// its own, and not everybody with a secret is the operator.
func (t Token) Several() bool {
	return slices.ContainsFunc(t.secrets, func(s secret) bool { return s.name != t.secrets[0].name })
}

// Identify returns the name of the secret in the Authorization header of a request, ""
// if there is none or it is wrong.
func (t Token) Identify(r *http.Request) string {
	return t.of(r).name
}

// Principal returns whose a request is: requests with secrets of the same name belong together,
// and so do those with the same secret without a name, however the header is spelled. It is ""
// for requests with a wrong secret or none, such as those with the cookie of a login. The text
// is the same after a restart, and does not reveal the secret.
func (t Token) Principal(r *http.Request) string { return t.of(r).principal }

// of returns the secret in the Authorization header of a request.
func (t Token) of(r *http.Request) secret {
	text, ok := bearer(r)
	if !ok {
		return secret{}
	}
	return t.find(digest(text))
}

// bearer returns the token in the Authorization header of a request; false if the header
// does not occur exactly once or has another form.
func bearer(r *http.Request) (string, bool) {
	values := r.Header.Values("Authorization")
	if len(values) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(values[0], " ")
	return strings.TrimSpace(token), strings.EqualFold(scheme, "Bearer")
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
