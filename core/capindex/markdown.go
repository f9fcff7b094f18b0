package capindex

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/printable"
)

// page writes Markdown up to a limit. What the servers say goes through prose and
// code only.
type page struct {
	strings.Builder
	limit int // bytes
}

// fits writes s if it leaves room for reserve more bytes, wholly or not at all.
func (p *page) fits(s string, reserve int) bool {
	if p.Len()+len(s)+reserve > p.limit {
		return false
	}
	p.WriteString(s)
	return true
}

// list writes lines as long as they fit into the next room bytes, and how many did
// not.
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

// prose makes one line of Markdown text out of what a server says: of at most
// limit characters, white space collapsed, nothing in it a mark-up, a tag or a link.
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
			b.WriteString("`@`") // some readers make a link of an address even where it is escaped
		default:
			b.WriteRune(r)
		}
		before = r
	}
	// Bare addresses become links even without mark-up.
	return strings.ReplaceAll(b.String(), "://", ":\\//")
}

// numbers reports whether a dot between the begin of a line and its end makes a list.
func numbers(begin, end string) bool {
	return begin != "" && strings.Trim(begin, "0123456789") == "" && (end == "" || end[0] == ' ')
}

// www reports whether a dot after s makes a link.
func www(s string) bool { return len(s) >= 3 && strings.EqualFold(s[len(s)-3:], "www") }

// code makes a code span, in which nothing has a meaning. Keys stay as they are up
// to limit characters, so that they can be used.
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

// short bounds the work on a long text: at most n bytes, no character cut.
func short(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// plural is "1 tool" or "2 tools".
func plural(n int, word string) string {
	if n == 1 {
		return "1 " + word
	}
	return fmt.Sprintf("%d %ss", n, word)
}
