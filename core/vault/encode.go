package vault

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	mimeMarkdown = "text/markdown"
	mimeJSON     = "application/json"
)

// encode encodes structs of strings and numbers of this package, which cannot fail.
func encode(v any) []byte {
	b, _ := printable.Marshal(v)
	return b
}

// pretty encodes one member per line, for readable diffs.
func pretty(v any) []byte {
	var b bytes.Buffer
	_ = json.Indent(&b, encode(v), "", "  ")
	return append(b.Bytes(), '\n')
}

// timestamp has millisecond precision, like JavaScript's toISOString.
func timestamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000Z") }

// sizeText formats a size for people.
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

// listOf replaces nil by an empty list, so that JSON has [] and not null.
func listOf[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
