package config

import (
	"bytes"
	"fmt"
	"unicode"
	"unicode/utf8"

	"github.com/tailscale/hujson"
)

// parseTree returns the syntax tree, or nil after reporting the one problem that
// keeps the text from having one.
func (d *document) parseTree() *hujson.Value {
	if !d.checkEncoding() || !d.checkDepth() {
		return nil
	}
	// A line comment may end with the file; hujson wants its newline.
	input := make([]byte, 0, len(d.source)+1)
	input = append(append(input, d.source...), '\n')
	tree, err := hujson.Parse(input)
	if err == nil {
		return &tree
	}
	// The text of the error is not used: it quotes the file, secrets included,
	// and names its own column. Its line and column, in bytes, are all it has.
	var line, column int
	if _, scanErr := fmt.Sscanf(err.Error(), "hujson: line %d, column %d:", &line, &column); scanErr != nil ||
		line < 1 || line > len(d.lines)+1 {
		line, column = 1, 1
	}
	offset := len(d.source)
	if line <= len(d.lines) {
		offset = min(d.lines[line-1]+column-1, len(d.source))
	}
	d.syntaxError(offset)
	return nil
}

func (d *document) checkEncoding() bool {
	if bytes.HasPrefix(d.source, []byte("\xff\xfe")) || bytes.HasPrefix(d.source, []byte("\xfe\xff")) {
		d.errorAt(0, "", CodeEncoding, "file is UTF-16, not UTF-8", "save it as UTF-8")
		return false
	}
	for i := 0; i < len(d.source); {
		r, size := utf8.DecodeRune(d.source[i:])
		if r == utf8.RuneError && size == 1 {
			d.errorAt(i, "", CodeEncoding, "file is not valid UTF-8 here", "save it as UTF-8")
			return false
		}
		i += size
	}
	if len(bytes.TrimSpace(d.source)) == 0 {
		d.errorAt(0, "", CodeSyntax, "file is empty", `the least is {"servers": []}`)
		return false
	}
	return true
}

// checkDepth keeps hujson, which calls itself for each level, and everything
// after it from running deep.
func (d *document) checkDepth() bool {
	o := d.scan(len(d.source))
	if len(o.open) <= MaxDepth {
		return true
	}
	d.errorAt(o.open[MaxDepth], "", CodeTooDeep,
		fmt.Sprintf("nested deeper than %d levels", MaxDepth), "")
	return false
}

// An outline is what stands before some offset: the offsets of the brackets
// still open there, and of the last token and the one before it (0 if none).
// Strings count from their opening quote, words by their last byte.
type outline struct {
	open         []int
	last, before int
}

// afterKey reports whether the last token is the key of an object member.
func (o outline) afterKey(t []byte) bool {
	return len(o.open) > 0 && t[o.open[len(o.open)-1]] == '{' && t[o.last] == '"' &&
		(t[o.before] == '{' || t[o.before] == ',')
}

// afterValue reports whether the last token ends a value.
func (o outline) afterValue(t []byte, offset int) bool {
	return o.last < offset && !o.afterKey(t) &&
		(t[o.last] == '"' || t[o.last] == '}' || t[o.last] == ']' || isWordByte(t[o.last]))
}

// wantsKey reports whether a key must come next.
func (o outline) wantsKey(t []byte) bool {
	return len(o.open) > 0 && t[o.open[len(o.open)-1]] == '{' && (t[o.last] == '{' || t[o.last] == ',')
}

// scan reads the tokens before end. It stops when more than MaxDepth brackets
// are open.
func (d *document) scan(end int) outline {
	var o outline
	t := d.source[:end]
	token := func(i int) { o.before, o.last = o.last, i }
	for i := 0; i < len(t); {
		switch c := t[i]; {
		case c == '"':
			token(i)
			for i++; i < len(t) && t[i] != '"'; i++ {
				if t[i] == '\\' {
					i++
				}
			}
			i++
		case c == '/' && bytes.HasPrefix(t[i:], []byte("//")):
			i = skipPast(t, i+2, "\n")
		case c == '/' && bytes.HasPrefix(t[i:], []byte("/*")):
			i = skipPast(t, i+2, "*/")
		case c == '{' || c == '[':
			token(i)
			if o.open = append(o.open, i); len(o.open) > MaxDepth {
				return o
			}
			i++
		case c == '}' || c == ']':
			token(i)
			if len(o.open) > 0 {
				o.open = o.open[:len(o.open)-1]
			}
			i++
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
			i++
		default:
			i += max(1, wordLength(t[i:]))
			token(i - 1)
		}
	}
	return o
}

func skipPast(t []byte, from int, end string) int {
	if i := bytes.Index(t[min(from, len(t)):], []byte(end)); i >= 0 {
		return from + i + len(end)
	}
	return len(t)
}

// syntaxError explains why no tree could be read at the offset, as a reader of
// the file would put it.
func (d *document) syntaxError(offset int) {
	o := d.scan(offset)
	afterValue := o.afterValue(d.source, offset)
	at := func(offset int, message, hint string) { d.errorAt(offset, "", CodeSyntax, message, hint) }
	rest := d.source[offset:]
	if len(bytes.TrimSpace(rest)) == 0 {
		d.syntaxErrorAtEnd(o)
		return
	}
	r, _ := utf8.DecodeRune(rest)
	word := rest[:wordLength(rest)]
	switch {
	case bytes.HasPrefix(rest, []byte("/*")):
		at(offset, "comment is not closed", `close it with "*/"`)
	case r != ':' && r != '=' && o.last < offset && o.afterKey(d.source):
		at(offset, `expected ":" and a value after the key`, "")
	case afterValue && len(o.open) == 0:
		at(offset, "text after the end of the document", "a config file holds one object")
	case afterValue && (r == '"' || r == '{' || r == '[' || len(word) > 0):
		at(offset, "missing comma before this", "")
	case r == '"':
		d.badString(offset)
	case r == '\'':
		at(offset, "single quotes do not make a string", `JSON strings are in double quotes: "…"`)
	case r == '“' || r == '”' || r == '‘' || r == '’':
		at(offset, "typographic quotes do not make a string", `use the plain double quote: "`)
	case r == '#':
		at(offset, `"#" does not begin a comment`, "comments begin with // or are between /* and */")
	case r == '=':
		at(offset, `expected ":" between key and value, found "="`, "")
	case r == '}' || r == ']':
		d.badClose(offset, r, o)
	case r == ',':
		at(offset, "comma without a value before it", "")
	case len(word) > 0:
		d.badWord(offset, string(word), o)
	case unicode.IsPrint(r):
		at(offset, fmt.Sprintf("unexpected character %q", r), "")
	default:
		at(offset, fmt.Sprintf("unexpected character %U", r), "")
	}
}

func isWordByte(c byte) bool {
	return c == '-' || c == '+' || c == '.' || c == '_' || c == '$' ||
		'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func wordLength(t []byte) int {
	n := 0
	for n < len(t) && isWordByte(t[n]) {
		n++
	}
	return n
}
