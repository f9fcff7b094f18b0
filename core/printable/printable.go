// Package printable makes text that others chose safe to show, and puts errors of Go's
// library in plain words ([Reason]).
//
// Every string from a server, a config, a header or a file name is hostile: an
// escape sequence rewrites a terminal, a line break forges a log line, a
// direction override hides what a URI says. [Line] is for terminals, log lines
// and error messages; [JSON] is for documents that may end up on a terminal and
// must keep their meaning. Both are free of state and never fail.
package printable

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns s as one line of at most limit runes (no limit when limit <= 0).
// Control characters (C0, DEL, C1), line and paragraph separators, direction
// overrides, zero-width and tag characters and broken UTF-8 appear as Go escapes
// such as \n, \x1b or \u202e; a cut is marked with an ellipsis. Zero-width joiners
// between emoji stay: they make one picture of several.
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
		case r == joiner && joins(s, i):
			b.WriteRune(r)
		case r < 0x80 && hidden(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case hidden(r) && r > 0xFFFF:
			fmt.Fprintf(&b, `\U%08x`, r)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
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

// JSON returns the JSON document with every hidden character inside its strings
// written as a \u escape. The value it stands for is unchanged; doc itself is
// returned when there is nothing to do. doc must be valid JSON.
func JSON(doc []byte) []byte {
	at := indexHidden(doc)
	if at < 0 {
		return doc
	}
	out := append(make([]byte, 0, len(doc)+32), doc[:at]...)
	for i := at; i < len(doc); {
		if c := doc[i]; c < 0x7f {
			out = append(out, c)
			i++
			continue
		}
		r, size := utf8.DecodeRune(doc[i:])
		switch {
		case !hidden(r):
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

// joiner is the zero-width joiner.
const joiner = '\u200d'

// joins reports whether the joiner at an index is between two emoji.
func joins(s string, at int) bool {
	before, size := utf8.DecodeLastRuneInString(s[:at])
	for before == '\ufe0f' || before >= 0x1f3fb && before <= 0x1f3ff { // presentation, skin tone
		at -= size
		before, size = utf8.DecodeLastRuneInString(s[:at])
	}
	_, rest, _ := strings.Cut(s[at:], string(joiner))
	after, _ := utf8.DecodeRuneInString(rest)
	return emoji(before) && emoji(after)
}

// emoji reports whether a rune is in the blocks that pictographs are in.
func emoji(r rune) bool {
	return r >= 0x1f000 && r <= 0x1faff || r >= 0x2600 && r <= 0x27bf || r >= 0x2b00 && r <= 0x2bff
}

func clean(s string) bool {
	for _, r := range s {
		if r == utf8.RuneError || hidden(r) {
			return false
		}
	}
	return true
}

// hidden reports whether a rune does something instead of showing something.
func hidden(r rune) bool {
	if r < 0x7f {
		return r < 0x20
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Co, unicode.Cs) ||
		unicode.Is(unicode.Variation_Selector, r) && r > 0xFFFF
}
