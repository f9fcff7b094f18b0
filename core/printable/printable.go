// Package printable makes text that others chose safe to show, and puts errors of Go's
// library in plain words ([Reason]).
//
// Every string from a server, a config, a header or a file name is hostile: an
// escape sequence rewrites a terminal, a line break forges a log line, a
// direction override hides what a URI says, and characters without a shape tell a model what
// its user does not see. [Line] is for terminals, log lines and error messages; [Visible] for
// what models read; [JSON] for documents that may end up on a terminal and must keep their
// meaning. All agree on which characters are hidden (see hidden.go), are free of state and
// never fail.
package printable

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Line returns s as one line of at most limit runes (no limit when limit <= 0).
// Control characters (C0, DEL, C1), line and paragraph separators, direction
// overrides, characters without a shape and broken UTF-8 appear as Go escapes
// such as \n, \x1b or \u202e; a cut is marked with an ellipsis. What gives the
// characters next to it their shape stays, such as a joiner between emoji.
func Line(s string, limit int) string {
	if clean(s) && (limit <= 0 || len(s) <= limit) {
		return s
	}
	var b strings.Builder
	runes := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if limit > 0 && runes == limit {
			b.WriteRune('…')
			break
		}
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case !hidden(r) || shapes(s, i):
			b.WriteRune(r)
		case r < 0x80:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r > 0xFFFF:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
		i += size
		runes++
	}
	return b.String()
}

// Lines is Line for text of several lines: line feeds stay, and tabs do.
func Lines(s string) string {
	parts := strings.Split(s, "\n")
	for i, p := range parts {
		cells := strings.Split(strings.TrimSuffix(p, "\r"), "\t")
		for j, c := range cells {
			cells[j] = Line(c, 0)
		}
		parts[i] = strings.Join(cells, "\t")
	}
	return strings.Join(parts, "\n")
}

// Visible returns s without hidden characters and broken UTF-8. Line ends and tabs stay.
func Visible(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
		case r == '\n', r == '\t', r == '\r' && strings.HasPrefix(s[i:], "\r\n"), !hidden(r), shapes(s, i):
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// JSON returns the JSON document with every hidden character inside its strings
// written as a \u escape. The value it stands for is unchanged; doc itself is
// returned when there is nothing to do. doc must be valid JSON.
func JSON(doc []byte) []byte {
	at := indexHidden(doc)
	if at < 0 {
		return doc
	}
	text := string(doc)
	out := append(make([]byte, 0, len(doc)+32), doc[:at]...)
	for i := at; i < len(doc); {
		if c := doc[i]; c < 0x7f {
			out = append(out, c)
			i++
			continue
		}
		r, size := utf8.DecodeRune(doc[i:])
		switch {
		case !hidden(r) || shapes(text, i):
			out = append(out, doc[i:i+size]...)
		case r > 0xFFFF:
			r -= 0x10000
			out = fmt.Appendf(out, `\u%04x\u%04x`, 0xD800+(r>>10), 0xDC00+(r&0x3FF))
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
		i += size
	}
	return out
}

// indexHidden finds the first byte that JSON would have to rewrite. Bytes below
// DEL never need it: in valid JSON they are visible or white space.
func indexHidden(doc []byte) int {
	for i := 0; i < len(doc); {
		if doc[i] < 0x7f {
			i++
			continue
		}
		r, size := utf8.DecodeRune(doc[i:])
		if hidden(r) {
			return i
		}
		i += size
	}
	return -1
}

func clean(s string) bool {
	for _, r := range s {
		if r == utf8.RuneError || hidden(r) {
			return false
		}
	}
	return true
}
