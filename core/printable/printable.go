// Package printable makes untrusted text safe to display, and rewrites errors from Go's standard
// library for users ([Reason]).
//
// Every string from a server, a config, a header or a file name is treated as hostile: an escape
// sequence can rewrite a terminal, a line break can forge a log line, a direction override can
// disguise a URI, and invisible characters can tell a model something that its user does not see.
// [Line] is for terminals, log lines and error messages, [Marked] is for diffs, [Visible] is for text
// that models read, and [JSON] is for documents that must keep their meaning and may be displayed on
// a terminal. They agree on which characters are hidden (see hidden.go), keep no state and never
// fail.
package printable

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Line returns s as one line of at most limit runes; a limit <= 0 means no limit. Control
// characters (C0, DEL, C1), line and paragraph separators, direction overrides, invisible
// characters and invalid UTF-8 are replaced with Go escapes such as \n, \x1b or \u202e. A truncated
// line ends with an ellipsis. Hidden characters that only shape their neighbours are kept, such as
// a joiner between emoji.
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

// Flat returns a text of several lines as one line, with white space replaced by single spaces. It
// returns other text unchanged.
func Flat(s string) string {
	if !strings.ContainsAny(s, "\r\n") {
		return s
	}
	return strings.Join(strings.Fields(s), " ")
}

// Lines is like Line without a limit, but keeps line feeds and tabs.
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

// Visible returns s without hidden characters and invalid UTF-8. It keeps line endings and tabs.
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

// Marked returns s with every hidden character as <U+200B>, for the comparison of texts: two texts
// that differ in characters without a visible shape look different. Unlike [Lines], it also marks
// characters that only shape their neighbours, and spaces that look like an ordinary one. It keeps
// line feeds and tabs. A byte that is not UTF-8 becomes <0xff>. The mark itself is distinct from text
// that looks like one, whose < is marked.
func Marked(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, "<0x%02x>", s[i])
		case r != '\n' && r != '\t' && hidden(r),
			r > 0x7f && r != '\u3000' && unicode.Is(unicode.Zs, r), // the ideographic space is wider
			strings.HasPrefix(s[i:], "<U+"), strings.HasPrefix(s[i:], "<0x"):
			fmt.Fprintf(&b, "<%U>", r)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

// JSON returns an equivalent JSON document in which every hidden character is a \u escape. It
// returns doc itself if nothing is hidden. doc must be valid JSON.
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

// indexHidden returns the index of the first byte that JSON must rewrite, or -1 if there is none.
// In valid JSON, all bytes below DEL are visible or white space.
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

// Marshal is like json.Marshal, for documents that people read on terminals: it returns one line,
// escapes hidden characters as [JSON] does, and does not escape < > &, because only HTML needs
// those escapes.
func Marshal(v any) ([]byte, error) {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return JSON(bytes.TrimSuffix(buf.Bytes(), []byte("\n"))), nil
}

// Shell returns s quoted as one word for a POSIX shell, for commands that users may copy. It
// escapes hidden characters as [Line] does, so a word that contains any does not match the original
// file name.
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

// Plain removes what a terminal does not show: escape sequences, such as colours, invalid UTF-8, and
// hidden characters other than white space.
func Plain(s string) string {
	var b strings.Builder
	for len(s) > 0 {
		if n := sequence(s); n > 0 {
			s = s[n:]
			continue
		}
		r, n := utf8.DecodeRuneInString(s)
		if invalid := r == utf8.RuneError && n == 1; !invalid && (!hidden(r) || unicode.IsSpace(r)) {
			b.WriteString(s[:n])
		}
		s = s[n:]
	}
	return b.String()
}

// sequence returns the length of the escape sequence with which a text begins, or 0.
func sequence(s string) int {
	rest, found := strings.CutPrefix(s, "\x1b")
	if !found {
		if rest, found = strings.CutPrefix(s, "\u009b"); !found {
			return 0
		}
		rest = "[" + rest
	}
	before := len(s) - len(rest)
	switch {
	case strings.HasPrefix(rest, "["): // CSI: ends with a letter or the like
		end := strings.IndexFunc(rest[1:], func(r rune) bool { return r < ' ' || r > '?' })
		if end < 0 {
			return len(s)
		}
		if last := rest[1+end]; last >= '@' && last <= '~' {
			end++
		}
		return before + 1 + end
	case strings.HasPrefix(rest, "]"): // OSC: ends with BEL or ST
		for i := range len(rest) {
			if rest[i] == '\a' {
				return before + i + 1
			}
			if strings.HasPrefix(rest[i:], "\x1b\\") {
				return before + i + 2
			}
		}
		return before // it does not end, so the rest is text
	}
	return before
}

// Size returns a number of bytes in human-readable form.
func Size(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	case n < 1<<30:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	}
}

// Plural returns a number followed by its noun: "1 server", "2 servers".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
