package secretfile

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/mcptrack/mcptrack/core/atomicfile"
)

// KeySize is the length of a key in bytes.
const KeySize = 32

// Key returns the key in a file that only its owner may read. If there is none, it makes one;
// processes that do so simultaneously get the same key. The directory must exist. A file that
// is no key is a *[RefusedError].
func Key(path string) ([]byte, error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		key := make([]byte, KeySize)
		_, _ = rand.Read(key) // it never fails
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
