package config

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/config/tree"
)

// maxProblems bounds how many errors, and separately how many warnings, are reported for one
// hostile file. Warnings never displace errors.
const maxProblems = 1000

// A document is the text of one file and the problems found in it so far.
type document struct {
	*tree.Source
	file     string
	problems Problems
	errors   int
	warnings int
	secrets  map[int]bool // offsets of the values already reported as secrets
}

func newDocument(data []byte, file string) *document {
	return &document{file: file, Source: tree.NewSource(data), secrets: map[int]bool{}}
}

func (d *document) errorAt(offset int, path pointer, code Code, message, hint string) {
	d.report(SeverityError, offset, path, code, message, hint)
}

func (d *document) warnAt(offset int, path pointer, code Code, message, hint string) {
	d.report(SeverityWarning, offset, path, code, message, hint)
}

func (d *document) report(severity Severity, offset int, path pointer, code Code, message, hint string) {
	count, kind := &d.warnings, "warnings"
	if severity == SeverityError {
		count, kind = &d.errors, "errors"
	}
	if *count == maxProblems || code == CodeSecret && severity == SeverityWarning && d.secrets[offset] {
		return
	}
	if code == CodeSecret {
		d.secrets[offset] = true
	}
	if *count++; *count == maxProblems {
		path, code, hint = "", CodeTooManyProblems, ""
		message = fmt.Sprintf("the file has more than %d %s; the others are not shown", maxProblems-1, kind)
	}
	line, column := d.Position(offset)
	d.problems = append(d.problems, Problem{Severity: severity, File: d.file, Line: line, Column: column,
		Path: path.String(), Code: code, Message: message, Hint: hint})
}

// full reports whether the limit of errors is reached: the file cannot be used, so reading may
// stop.
func (d *document) full() bool { return d.errors == maxProblems }

// A pointer is a JSON pointer. It grows by copying, so that siblings can share a
// parent.
type pointer string

func (p pointer) key(name string) pointer {
	if strings.ContainsAny(name, "~/") {
		name = strings.ReplaceAll(strings.ReplaceAll(name, "~", "~0"), "/", "~1")
	}
	return p + "/" + pointer(name)
}

func (p pointer) index(i int) pointer { return p + "/" + pointer(strconv.Itoa(i)) }

// last returns the last key or index of the pointer, still escaped.
func (p pointer) last() string { return string(p[strings.LastIndexByte(string(p), '/')+1:]) }

// String returns the pointer shortened and with tokens hidden: the file chooses its keys, and
// each problem repeats all keys above its place.
func (p pointer) String() string {
	const most = 1024
	if credential.Token(string(p[:min(len(p), 2*most)])) {
		parts := strings.Split(string(p[:min(len(p), 2*most)]), "/")
		for i, part := range parts {
			if credential.Token(part) {
				parts[i] = "…"
			}
		}
		p = pointer(strings.Join(parts, "/"))
	}
	s := strings.ToValidUTF8(string(p), "\ufffd")
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// quote shows a key or an ID from the file: quoted, short, without control or invisible
// characters. If it looks like a token, it is hidden.
func quote(s string) string {
	const most = 64
	if credential.Token(s[:min(len(s), 1024)]) {
		return `"…"`
	}
	if utf8.RuneCountInString(s) > most {
		s = string([]rune(s)[:most]) + "…"
	}
	return strconv.Quote(s)
}

// duplicateKeys reports each key that occurs twice in an object, anywhere below n. JSON readers
// silently keep the last one, which may not be the one that the author meant. The keys of n
// itself are exempt if ids is set: for duplicate server IDs the reader has a better message.
func (d *document) duplicateKeys(n *tree.Node, path pointer, ids bool) {
	seen := make(map[string]int, len(n.Members))
	for _, m := range n.Members {
		if d.full() {
			return
		}
		first, duplicate := seen[m.Name]
		switch {
		case !duplicate:
			seen[m.Name] = m.Offset
		case !ids && first != m.Offset: // an equal offset is the same key, reached through two aliases
			line, _ := d.Position(first)
			d.errorAt(m.Offset, path.key(m.Name), CodeDuplicateKey,
				fmt.Sprintf("Duplicate key %s; it is already on line %d", quote(m.Name), line), "keep one of them")
		}
		d.duplicateKeys(m.Value, path.key(m.Name), false)
	}
	for i, item := range n.Items {
		d.duplicateKeys(item, path.index(i), false)
	}
}
