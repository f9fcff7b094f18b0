package config

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// maxProblems bounds what one hostile file can make us say.
const maxProblems = 1000

// A document is the text of one file and the problems found in it so far.
type document struct {
	file     string
	source   []byte // without byte order mark
	lines    []int  // offset of the first byte of each line
	problems Problems
	full     bool // maxProblems reached; what comes after is not kept
}

func newDocument(data []byte, file string) *document {
	d := &document{file: file, source: bytes.TrimPrefix(data, []byte("\ufeff")), lines: []int{0}}
	for i, c := range d.source {
		if c == '\n' {
			d.lines = append(d.lines, i+1)
		}
	}
	return d
}

// position returns the line and column, both 1-based, of a byte offset. Columns
// count code points; a byte that is not UTF-8 counts as one.
func (d *document) position(offset int) (line, column int) {
	offset = min(max(offset, 0), len(d.source))
	line = sort.SearchInts(d.lines, offset+1)
	return line, 1 + utf8.RuneCount(d.source[d.lines[line-1]:offset])
}

func (d *document) errorAt(offset int, path pointer, code Code, message, hint string) {
	d.report(SeverityError, offset, path, code, message, hint)
}

func (d *document) warnAt(offset int, path pointer, code Code, message, hint string) {
	d.report(SeverityWarning, offset, path, code, message, hint)
}

func (d *document) report(severity Severity, offset int, path pointer, code Code, message, hint string) {
	if d.full {
		return
	}
	if len(d.problems) == maxProblems-1 {
		d.full = true
		severity, path, code, hint = SeverityError, "", CodeTooManyProblems, ""
		message = fmt.Sprintf("more than %d problems; the rest is not shown", maxProblems-1)
	}
	line, column := d.position(offset)
	d.problems = append(d.problems, Problem{Severity: severity, File: d.file, Line: line, Column: column,
		Path: path.String(), Code: code, Message: message, Hint: hint})
}

// A pointer is a JSON pointer. It grows by copying, so that siblings can share a
// parent.
type pointer string

func (p pointer) key(name string) pointer {
	return p + "/" + pointer(strings.NewReplacer("~", "~0", "/", "~1").Replace(name))
}

func (p pointer) index(i int) pointer { return p + "/" + pointer(strconv.Itoa(i)) }

// String bounds the pointer: keys are chosen by the file, and each problem
// repeats all of those above it.
func (p pointer) String() string {
	const most = 1024
	s := strings.ToValidUTF8(string(p), "\ufffd")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// quote shows a key or an ID from the file: quoted, short, without control or
// invisible characters.
func quote(s string) string {
	const most = 64
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return strconv.Quote(s)
}

// duplicateKeys reports each key that its object already has, anywhere below v.
// JSON readers keep the last one without a word, so that what is meant and what
// is used differ. The objects whose keys are server IDs are left to the reader,
// which has a better message.
func (d *document) duplicateKeys(v *hujson.Value, path pointer, servers []*hujson.Object) {
	switch t := v.Value.(type) {
	case *hujson.Object:
		seen := make(map[string]int, len(t.Members))
		for i := range t.Members {
			m := &t.Members[i]
			name := text(&m.Name)
			if first, ok := seen[name]; ok && !slices.Contains(servers, t) {
				line, _ := d.position(first)
				d.errorAt(m.Name.StartOffset, path.key(name), CodeDuplicateKey,
					fmt.Sprintf("Duplicate key %s; it is already on line %d", quote(name), line),
					"keep one of them")
			} else if !ok {
				seen[name] = m.Name.StartOffset
			}
			if d.full {
				return
			}
			d.duplicateKeys(&m.Value, path.key(name), servers)
		}
	case *hujson.Array:
		for i := range t.Elements {
			d.duplicateKeys(&t.Elements[i], path.index(i), servers)
		}
	}
}

// text returns the unescaped content of a string, or the source of a number,
// boolean or null.
func text(v *hujson.Value) string {
	literal, _ := v.Value.(hujson.Literal)
	return literal.String()
}

// kind returns what v is: one of " 0 t f n { [.
func kind(v *hujson.Value) hujson.Kind { return v.Value.Kind() }

func isString(v *hujson.Value) bool { return kind(v) == '"' }
