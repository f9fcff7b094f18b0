package webhooks

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// Key is the secret from which the paths of a receiver's slots are derived. It cannot be
// printed.
type Key struct{ bytes []byte }

const keySize = 32

// NewKey returns a random key.
func NewKey() Key {
	k := Key{make([]byte, keySize)}
	_, _ = rand.Read(k.bytes) // it never fails
	return k
}

// LoadKey returns the key in a file that only its owner may read. If there is none, it makes
// one. The directory must exist.
func LoadKey(path string) (Key, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		k := NewKey()
		return k, atomicfile.Replace(path, 0o600, []byte(base64.StdEncoding.EncodeToString(k.bytes)+"\n"))
	}
	text, err := secretfile.Read(path)
	if err != nil {
		return Key{}, err
	}
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != keySize {
		return Key{}, &secretfile.RefusedError{Path: path, Problem: fmt.Sprintf("invalid key; expected %d bytes in base64 (if you remove the file, mcptrack creates a new key)", keySize)}
	}
	return Key{key}, nil
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
