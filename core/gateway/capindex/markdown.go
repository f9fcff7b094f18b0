package capindex

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/printable"
)

// page collects Markdown text. fits and list respect its size limit. Text from servers must be
// passed through prose or code.
type page struct {
	strings.Builder
	limit int // maximum size in bytes
}

// fits writes s if at least reserve bytes remain free after it, and reports whether it did.
func (p *page) fits(s string, reserve int) bool {
	if p.Len()+len(s)+reserve > p.limit {
		return false
	}
	p.WriteString(s)
	return true
}

// list writes lines until room bytes are used up, followed by the number of lines that did not fit.
func (p *page) list(room int, lines []string) {
	whole := p.limit
	p.limit = min(whole, p.Len()+room)
	for i, line := range lines {
		more := fmt.Sprintf("- … and %d more\n", len(lines)-i)
		if !p.fits(line+"\n", len(more)) {
			p.limit = whole
			p.WriteString(more)
			return
		}
	}
	p.limit = whole
}

// prose converts text from a server to one line of Markdown with at most limit characters: white
// space is collapsed, and markup, tags and links are escaped.
func prose(s string, limit int) string {
	s = printable.Line(strings.Join(strings.Fields(short(s, 4*limit)), " "), limit)
	var b strings.Builder
	var before rune
	for i, r := range s {
		switch {
		case strings.ContainsRune("\\`*_{}[]<>()#|!~&$", r), i == 0 && strings.ContainsRune("-+=:", r),
			r == '.' && (numbers(s[:i], s[i+1:]) || www(s[:i])):
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '@' && before != '@':
			b.WriteString("`@`") // some renderers turn an address into a link even if it is escaped
		default:
			b.WriteRune(r)
		}
		before = r
	}
	// Bare URLs become links even without markup.
	return strings.ReplaceAll(b.String(), "://", ":\\//")
}

// numbers reports whether Markdown would interpret a dot between begin and end of a line as the
// marker of a numbered list.
func numbers(begin, end string) bool {
	return begin != "" && strings.Trim(begin, "0123456789") == "" && (end == "" || end[0] == ' ')
}

// www reports whether a dot after s would make Markdown display a link, as in "www.".
func www(s string) bool { return len(s) >= 3 && strings.EqualFold(s[len(s)-3:], "www") }

// code returns s as a Markdown code span, in which markup has no effect. A key of at most limit
// characters is unchanged, so that it can be copied.
func code(s string, limit int) string {
	s = printable.Line(short(s, 4*limit+4), limit)
	longest, run := 0, 0
	for _, r := range s {
		if r == '`' {
			run++
			longest = max(longest, run)
		} else {
			run = 0
		}
	}
	if longest == 0 && strings.TrimSpace(s) == s && s != "" {
		return "`" + s + "`"
	}
	fence := strings.Repeat("`", longest+1)
	return fence + " " + s + " " + fence
}

// short truncates a text to n bytes at a rune boundary.
func short(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
