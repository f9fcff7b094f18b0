package vault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

const (
	mimeMarkdown = "text/markdown"
	mimeJSON     = "application/json"
)

// encode never fails: what it is given are our own structs of texts and numbers.
func encode(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// pretty encodes with one member a line, which makes diffs of it readable.
func pretty(v any) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	_ = enc.Encode(v)
	return b.Bytes()
}

// depthOf is how deep objects and arrays of valid JSON are nested.
func depthOf(doc []byte) (most int) {
	now, inString := 0, false
	for i := 0; i < len(doc); i++ {
		switch c := doc[i]; {
		case inString && c == '\\':
			i++
		case c == '"':
			inString = !inString
		case inString:
		case c == '{' || c == '[':
			now++
			most = max(most, now)
		case c == '}' || c == ']':
			now--
		}
	}
	return most
}

// timestamp has three digits of a second, as JavaScript's toISOString does.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// sizeText is a size for people.
func sizeText(n int64) string {
	if n < 1024 {
		return fmt.Sprintf("%d B", n)
	}
	v, unit := float64(n)/1024, "KB"
	if v >= 1024 {
		v, unit = v/1024, "MB"
	}
	return fmt.Sprintf("%.1f %s", v, unit)
}

// listOf makes an empty list of none, which JSON would have as null.
func listOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
