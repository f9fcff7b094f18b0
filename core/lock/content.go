package lock

import (
	"encoding/json"
	"errors"
	"strings"
	"unicode/utf8"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// MaxContent is the maximum number of bytes of a resource's text in the lock.
const MaxContent = 64 << 10

// content is the definition of an item in [SectionContents].
type content struct {
	URI      string  `json:"uri"`
	MIMEType string  `json:"mimeType,omitzero"`
	Size     int64   `json:"size"`          // in bytes
	SHA256   string  `json:"sha256"`        // of the whole content
	Text     *string `json:"text,omitzero"` // its first MaxContent bytes, if it is text
}

// Content returns the definition of the content of a resource, for [Hashing.Item]. data is the text
// or the decoded blob.
func Content(uri, mimeType string, data []byte, text bool) json.RawMessage {
	c := content{URI: strings.ToValidUTF8(uri, "\ufffd"), MIMEType: strings.ToValidUTF8(mimeType, "\ufffd"), Size: int64(len(data)), SHA256: sum(data)}
	if text && utf8.Valid(data) {
		start := string(data[:min(len(data), MaxContent)])
		for len(start) < len(data) && !utf8.ValidString(start) {
			start = start[:len(start)-1]
		}
		c.Text = &start
	}
	definition, _ := jsonv2.Marshal(c) // cannot fail: all texts are valid
	return definition
}

// checkContent returns an error if the text of a content does not have the size and hash beside it.
func checkContent(definition jsontext.Value) error {
	var c content
	if jsonv2.Unmarshal(definition, &c, jsonv2.RejectUnknownMembers(true)) != nil || c.Size < 0 || !isHash(c.SHA256) {
		return errors.New("it has no valid size and sha256")
	}
	switch {
	case c.Text == nil:
	case int64(len(*c.Text)) == c.Size && sum([]byte(*c.Text)) != c.SHA256,
		int64(len(*c.Text)) > c.Size,
		int64(len(*c.Text)) < min(c.Size, MaxContent-utf8.UTFMax):
		return errors.New("its text is not the content that its sha256 and size describe")
	}
	return nil
}

// isHash reports whether s is a SHA-256 in lower-case hexadecimal.
func isHash(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}
