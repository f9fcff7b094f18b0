// Package credential recognises credentials in the strings of a config: tokens by their form,
// and other values by their names, such as API_KEY.
//
// It guesses. Placeholders, references to variables, paths of files and words for settings are
// not credentials. Nothing is kept or shown; time and memory are proportional to the text. All
// functions may be called concurrently.
package credential

import (
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// A Span is a credential within a text: its bytes from From to before To.
type Span struct {
	From, To int
	// Name is the name of the credential in the text, such as the key of a header; "" if only
	// its form identified it.
	Name string
}

// Find returns the credentials in the value of name, such as an environment variable or a
// header, in order and without overlaps.
func Find(name, text string) []Span {
	f := finder{text: text}
	f.value(name, part{0, len(text)}, 0)
	return f.sorted()
}

// FindURL is Find for the URL of a server; it also looks at the path, and at a user name
// without a password.
func FindURL(text string) []Span {
	f := finder{text: text, address: true}
	f.value("", part{0, len(text)}, 0)
	return f.sorted()
}

// FindArgs returns the credentials in each argument of a command.
func FindArgs(args []string) [][]Span {
	found := make([][]Span, len(args))
	flag := "" // the preceding option, whose value this argument may be
	for i, arg := range args {
		f := finder{text: arg, argument: true}
		name, whole := flag, part{0, len(arg)}
		flag = ""
		if strings.HasPrefix(arg, "-") {
			name = ""
			option, _, joined := strings.Cut(arg, "=")
			switch {
			case strings.ContainsAny(option, " :"): // a line of options, or a header
			case joined:
				name, whole.from = option, len(option)+1
			default:
				flag = arg
			}
		} else if name == "" && disordered(arg) && len(arg) >= 20 && !strings.ContainsFunc(arg, notToken) {
			f.add(whole, "")
		}
		f.headers = strings.Contains(strings.ToLower(name), "header") || name == "-H"
		f.value(name, whole, 0)
		found[i] = f.sorted()
	}
	return found
}

// A part is a piece of the finder's text.
type part struct{ from, to int }

// A finder collects the credentials of one text.
type finder struct {
	text     string
	address  bool // the text is the URL of a server
	argument bool // the text is an argument of a command
	headers  bool // NAME:VALUE is a header, even without a space
	found    []Span
}

func (f *finder) of(p part) string { return f.text[p.from:p.to] }

func (f *finder) add(p part, name string) {
	f.found = append(f.found, Span{From: p.from, To: p.to, Name: name})
}

// sorted returns what was found, each overlap as one span. A credential that is the default in
// a reference is widened to the whole reference.
func (f *finder) sorted() []Span {
	slices.SortStableFunc(f.found, func(a, b Span) int { return a.From - b.From })
	var out []Span
	start, end := -1, 0 // of the last reference that begins before the credential
	for _, s := range f.found {
		for s.From >= end {
			i := strings.Index(f.text[end:s.From], "${")
			if i < 0 {
				break
			}
			start = end + i
			if end = strings.IndexByte(f.text[start:], '}'); end < 0 {
				start, end = -1, len(f.text)
			} else {
				end += start + 1
			}
		}
		if start >= 0 && start < s.From && s.From < end {
			s.From, s.To = start, max(s.To, end)
		}
		if last := len(out) - 1; last >= 0 && s.From < out[last].To {
			out[last].To = max(out[last].To, s.To)
			if out[last].Name == "" {
				out[last].Name = s.Name
			}
			continue
		}
		out = append(out, s)
	}
	return out
}

// maxNested bounds how many levels of JSON within JSON strings are read.
const maxNested = 3

// value looks for credentials in a value with a name.
func (f *finder) value(name string, p part, nested int) {
	p = f.trim(p)
	text := f.of(p)
	if text == "" {
		return
	}
	if (text[0] == '{' || text[0] == '[') && nested < maxNested {
		if root, failure := tree.NewSource([]byte(text)).Parse(tree.JSON); failure == nil {
			f.json(name, root, p, nested+1)
			return
		}
	}
	f.tokens(p)
	f.urls(p)
	f.pairs(p)
	f.options(p)
	switch strength := kind(name); {
	case strength == ordinary:
	case f.credential(strength, f.afterScheme(p)):
		f.add(f.afterScheme(p), name)
	}
}

// credential reports whether a value is a credential, given the strength of its name.
func (f *finder) credential(s strength, p part) bool {
	text := f.of(p)
	return literal(text) && (s == strong || !setting(text)) && (s != perhaps || opaque(text))
}

// json looks for credentials in the JSON value at p.
func (f *finder) json(name string, n *tree.Node, p part, nested int) {
	switch n.Kind {
	case tree.Object:
		for _, m := range n.Members {
			f.json(m.Name, m.Value, p, nested)
		}
	case tree.List:
		for _, item := range n.Items {
			f.json(name, item, p, nested)
		}
	case tree.String:
		from := p.from + n.Offset + 1
		if to := from + len(n.Text); to < p.to && f.text[from:to] == n.Text { // no escapes
			f.value(name, part{from, to}, nested)
			return
		}
		if inner := (&finder{text: n.Text}); n.Text != "" {
			if inner.value(name, part{0, len(n.Text)}, nested); len(inner.found) > 0 {
				f.add(p, name) // the whole string, because escapes hide where in it
			}
		}
	}
}

// trim returns p without white space around it.
func (f *finder) trim(p part) part {
	text := f.of(p)
	left := len(text) - len(strings.TrimLeft(text, " \t\r\n"))
	return part{p.from + left, max(p.from+left, p.from+len(strings.TrimRight(text, " \t\r\n")))}
}

// afterScheme returns p without an authentication scheme at its beginning: of "Bearer x" only
// x.
func (f *finder) afterScheme(p part) part {
	text := f.of(p)
	for _, scheme := range []string{"bearer ", "basic ", "token ", "apikey ", "api-key "} {
		if len(text) > len(scheme) && strings.EqualFold(text[:len(scheme)], scheme) {
			return f.trim(part{p.from + len(scheme), p.to})
		}
	}
	return p
}
