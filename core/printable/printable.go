// Package printable makes untrusted text safe to show, and rewords errors of Go's library for
// users ([Reason]).
//
// Every string from a server, a config, a header or a file name is hostile: an escape sequence
// rewrites a terminal, a line break forges a log line, a direction override disguises a URI, and
// invisible characters tell a model what its user does not see. [Line] is for terminals, log
// lines and error messages, [Visible] for text that models read, and [JSON] for documents that
// must keep their meaning and may end up on a terminal. They agree on which characters are
// hidden (see hidden.go), keep no state and never fail.
package printable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Line returns s as one line of at most limit runes; limit <= 0: no limit. Control characters
// (C0, DEL, C1), line and paragraph separators, direction overrides, invisible characters and
// invalid UTF-8 become Go escapes such as \n, \x1b or \u202e. An ellipsis marks truncation. Hidden
// characters that shape their neighbours stay, such as a joiner between emoji.
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

// Lines is Line for several lines: it keeps line feeds and tabs.
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

// Visible returns s without hidden characters and invalid UTF-8. It keeps line ends and tabs.
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

// JSON returns an equal JSON document with every hidden character as a \u escape. It returns doc
// itself if nothing is hidden. doc must be valid JSON.
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

// indexHidden returns the index of the first byte that JSON must rewrite, or -1. In valid JSON,
// bytes below DEL are visible or white space.
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

// Marshal is json.Marshal for documents that people and terminals see: one line, hidden characters
// escaped as in [JSON], and < > & unescaped, because only HTML needs those escapes.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return JSON(bytes.TrimSuffix(buf.Bytes(), []byte("\n"))), nil
}

// Shell returns s as one word of a POSIX shell, for commands that a user may copy. It escapes
// hidden characters as in [Line], so a word that has any names no file.
func Shell(s string) string {
	s = Line(s, 0)
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("_-+=:,./@%^", r)
	}
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !plain(r) }) < 0 {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}
