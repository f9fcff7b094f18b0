package printable

import (
	"bytes"
	"encoding/json"
)

// Marshal is json.Marshal for documents that people and terminals see: in one line,
// with the hidden characters of [JSON] escaped, and without the escapes of < > & that
// only HTML needs: URIs are full of &.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return JSON(bytes.TrimSuffix(buf.Bytes(), []byte("\n"))), nil
}
