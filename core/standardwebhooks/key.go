package standardwebhooks

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"

	"github.com/mcptrack/mcptrack/core/secretfile"
)

// Key is the secret from which the paths of a receiver's slots are derived. It cannot be
// printed.
type Key struct{ bytes []byte }

// NewKey returns a random key.
func NewKey() Key {
	k := Key{make([]byte, secretfile.KeySize)}
	_, _ = rand.Read(k.bytes) // it never fails
	return k
}

// LoadKey returns the key in a file, which it makes if there is none; see [secretfile.Key].
func LoadKey(path string) (Key, error) {
	bytes, err := secretfile.Key(path)
	return Key{bytes}, err
}

// String does not reveal the key.
func (k Key) String() string { return "[redacted]" }

// GoString is String.
func (k Key) GoString() string { return k.String() }

// path is the last element of the path of a slot: 128 bits.
func (k Key) path(name string) string {
	h := hmac.New(sha256.New, k.bytes)
	_, _ = h.Write([]byte(name)) // it never fails
	return hex.EncodeToString(h.Sum(nil)[:16])
}
