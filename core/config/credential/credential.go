// Package credential recognises credentials in the strings of a config: tokens by their format, and
// other values by their names, such as API_KEY.
//
// The detection is heuristic. Placeholders, references to variables, file paths and ordinary
// settings are not treated as credentials. Time and memory are proportional to the length of the
// text. All functions may be called concurrently.
package credential

import (
	"slices"
	"sort"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// A Span locates a credential in a text: the bytes from From up to, but not including, To.
type Span struct {
	From, To int
	// Name is the credential's name in the text, such as the name of a header; empty if the
	// credential was recognised by its format.
	Name string
}

// Find returns the credentials in a named value, such as an environment variable or a header, in
// order and without overlaps.
func Find(name, text string) []Span {
	f := finder{text: text}
	f.value(name, part{0, len(text)}, 0)
	return f.sorted()
}

// FindURL returns the credentials in the URL of a server. In addition to the checks made by Find,
// it checks the path, and a user name without a password.
func FindURL(text string) []Span {
	f := finder{text: text, address: true}
	f.value("", part{0, len(text)}, 0)
	return f.sorted()
}

// FindArgs returns the credentials in each command-line argument.
func FindArgs(args []string) [][]Span {
	found := make([][]Span, len(args))
	flag := "" // the preceding option, if this argument may be the option's value
	for i, arg := range args {
		f := finder{text: arg, argument: true}
		name, whole := flag, part{0, len(arg)}
		flag = ""
		if strings.HasPrefix(arg, "-") {
			name = ""
			option, _, joined := strings.Cut(arg, "=")
			switch {
			case strings.ContainsAny(option, " :"): // several options in one argument, or a header
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

// Mask returns the text with its credentials replaced by "[secret]".
func Mask(text string, found []Span) string {
	for _, s := range slices.Backward(found) {
		text = text[:s.From] + "[secret]" + text[s.To:]
	}
	return text
}

// MaskArgs returns the command-line arguments with their credentials replaced by "[secret]".
func MaskArgs(args []string) []string {
	out := make([]string, len(args))
	for i, found := range FindArgs(args) {
		out[i] = Mask(args[i], found)
	}
	return out
}

// A part is a range of the finder's text.
type part struct{ from, to int }

// A finder collects the credentials of one text.
type finder struct {
	text     string
	address  bool // the text is the URL of a server
	argument bool // the text is a command-line argument
	headers  bool // NAME:VALUE is treated as a header, even without a space
	found    []Span
}

func (f *finder) of(p part) string { return f.text[p.from:p.to] }

func (f *finder) add(p part, name string) {
	f.found = append(f.found, Span{From: p.from, To: p.to, Name: name})
}

// sorted returns the credentials in order, with overlaps merged. If the default value of a
// reference contains a credential, the credential is extended to the whole reference.
func (f *finder) sorted() []Span {
	sort.SliceStable(f.found, func(i, j int) bool { return f.found[i].From < f.found[j].From })
	var out []Span
	start, end := -1, 0 // of the last reference that starts before the credential
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

// maxNested limits how many levels of JSON nested in JSON strings are parsed.
const maxNested = 3

// value finds credentials in a named value.
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

// credential reports whether the value at p is a credential, given the strength of its name.
func (f *finder) credential(s strength, p part) bool {
	text := f.of(p)
	return literal(text) && (s == strong || !setting(text)) && (s != perhaps || opaque(text))
}

// json finds credentials in the JSON value at p.
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
		if to := from + len(n.Text); to < p.to && f.text[from:to] == n.Text { // the string contains no escapes
			f.value(name, part{from, to}, nested)
			return
		}
		if inner := (&finder{text: n.Text}); n.Text != "" {
			if inner.value(name, part{0, len(n.Text)}, nested); len(inner.found) > 0 {
				f.add(p, name) // mark the whole document, because escapes change offsets
			}
		}
	}
}

// trim returns p without leading and trailing white space.
func (f *finder) trim(p part) part {
	text := f.of(p)
	left := len(text) - len(strings.TrimLeft(text, " \t\r\n"))
	return part{p.from + left, max(p.from+left, p.from+len(strings.TrimRight(text, " \t\r\n")))}
}

// afterScheme returns p without a leading authentication scheme: x for "Bearer x".
func (f *finder) afterScheme(p part) part {
	text := f.of(p)
	for _, scheme := range []string{"bearer ", "basic ", "token ", "apikey ", "api-key "} {
		if len(text) > len(scheme) && strings.EqualFold(text[:len(scheme)], scheme) {
			return f.trim(part{p.from + len(scheme), p.to})
		}
	}
	return p
}

// urls finds credentials in the URLs in a text: passwords, secret query parameters and, if the text
// is a server's URL or a command-line argument, random-looking path segments.
func (f *finder) urls(p part) {
	text := f.of(p)
	for at := 0; ; {
		i := strings.Index(text[at:], "://")
		if i < 0 {
			return
		}
		i += at
		scheme := i
		for scheme > at && (isTokenByte(text[scheme-1]) || text[scheme-1] == '+' || text[scheme-1] == '.') {
			scheme--
		}
		end := i + 3
		for end < len(text) && !strings.ContainsRune(" \t\r\n\"'`|;<>", rune(text[end])) {
			end++
		}
		if scheme < i {
			f.url(text[scheme:i], part{p.from + i + 3, p.from + end})
		}
		at = end
	}
}

// url finds credentials in one URL; p is the part after "://".
func (f *finder) url(scheme string, p part) {
	text, _, _ := strings.Cut(f.of(p), "#")
	before, query, _ := strings.Cut(text, "?")
	authority, path, _ := strings.Cut(before, "/")
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, password, hasPassword := strings.Cut(authority[:at], ":")
		switch {
		case hasPassword && password == user: // a common default password, as in postgres:postgres
		case hasPassword && literal(password):
			f.add(part{p.from + len(user) + 1, p.from + at}, "password")
		case !hasPassword && f.address && literal(user):
			f.add(part{p.from, p.from + at}, "user")
		}
	}
	if f.address || f.argument && strings.HasPrefix(scheme, "http") {
		f.path(authority, path, p.from+len(authority)+1)
	}
	for at := p.from + len(before) + 1; query != ""; {
		pair, rest, _ := strings.Cut(query, "&")
		name, value, _ := strings.Cut(pair, "=")
		lower := strings.ToLower(name)
		s := kind(name)
		if lower == "key" || lower == "sig" || lower == "auth" {
			s = strong
		}
		if from := at + len(name) + 1; value != "" && s != ordinary && f.credential(s, part{from, from + len(value)}) {
			f.add(part{from, from + len(value)}, name)
		}
		at, query = at+len(pair)+1, rest
	}
}

// path finds random-looking path segments, because anyone who knows such a URL can use it. A
// segment that follows a plural noun, as in /projects/ID, is considered an identifier and not a
// secret.
func (f *finder) path(host, path string, at int) {
	before := ""
	for segment := range strings.SplitSeq(path, "/") {
		if capability(host, before, segment) && literal(segment) {
			f.add(part{at, at + len(segment)}, "url secret")
		}
		before, at = segment, at+len(segment)+1
	}
}

// capability reports whether a path segment looks random. before is the preceding segment.
func capability(host, before, segment string) bool {
	if len(segment) < 16 || strings.ContainsFunc(segment, notToken) {
		return false
	}
	plural := len(before) > 3 && strings.HasSuffix(strings.ToLower(before), "s") && !strings.EqualFold(before, "webhooks") && !strings.EqualFold(before, "services")
	classes, turns, hexadecimal := mixture(strings.ReplaceAll(segment, "-", ""))
	digits := strings.ContainsAny(segment, "0123456789")
	length := len(strings.ReplaceAll(segment, "-", ""))
	switch {
	case strings.Contains(host, "git") && hexadecimal:
		return false
	case uuid(segment), hexadecimal && digits && length >= 24:
		return !plural
	case strings.Contains(segment, "-") && classes < 3: // consists of words, versions or dates
		return false
	case classes >= 3:
		return length >= 20 && 20*turns >= 9*length
	}
	return digits && !plural && length >= 20 && 4*turns >= length && strings.Trim(segment, "0123456789") != ""
}

// uuid reports whether a text is a random UUID: version 4 of RFC 9562.
func uuid(s string) bool {
	if len(s) != 36 || s[14] != '4' {
		return false
	}
	for i := range len(s) {
		dash := i == 8 || i == 13 || i == 18 || i == 23
		if dash != (s[i] == '-') || !dash && strings.IndexByte("0123456789abcdefABCDEF", s[i]) < 0 {
			return false
		}
	}
	return true
}

// pairs finds credentials in text of the form NAME=VALUE or "NAME: VALUE", such as connection
// strings, shell assignments and headers.
func (f *finder) pairs(p part) {
	text := f.of(p)
	for from := 0; from < len(text); {
		end := from
		for end < len(text) && !strings.ContainsRune(";,&|\n\"'`", rune(text[end])) {
			end++
		}
		f.pair(part{p.from + from, p.from + end})
		from = end + 1
	}
}

// pair finds credentials in one field of the text, which may contain several pairs separated by
// spaces.
func (f *finder) pair(p part) {
	p = f.trim(p) // trimmed here once, because each value below extends to the end of p
	for p.from < p.to {
		text := f.of(p)
		i := strings.IndexAny(text, "=:")
		if i < 0 || strings.HasPrefix(text[i:], "://") {
			return
		}
		name := text[:i]
		if blank := strings.LastIndexAny(name, " \t?"); blank >= 0 {
			name = name[blank+1:]
		}
		value := f.trim(part{p.from + i + 1, p.to})
		header := text[i] == ':'
		if header && !f.isHeader(name, value.from > p.from+i+1) {
			p.from += i + 1
			continue
		}
		whole := value
		value = f.afterScheme(value)
		if blank := strings.IndexAny(f.of(value), " \t"); blank >= 0 {
			if header { // without a header, the text is prose
				return
			}
			value.to = value.from + blank
		}
		if s := kind(name); s != ordinary && value.from < value.to && f.credential(s, value) {
			f.add(value, strings.TrimLeft(name, "-"))
		}
		p.from = max(value.to, whole.from)
	}
}

// isHeader reports whether NAME:VALUE is a header rather than, for example, a container image with
// a tag.
func (f *finder) isHeader(name string, spaced bool) bool {
	lower := strings.ToLower(name)
	return spaced || f.headers || strings.HasPrefix(lower, "x-") || strings.Contains(lower, "authorization") || lower == "api-key" || lower == "apikey" || lower == "cookie"
}

// options finds credentials in the values of options such as "--token VALUE" in a shell command
// line.
func (f *finder) options(p part) {
	flag := ""
	for at := p.from; at < p.to; {
		end := at
		for end < p.to && f.text[end] != ' ' {
			end++
		}
		word := f.text[at:end]
		if value := (part{at, end}); flag != "" && !strings.HasPrefix(word, "-") {
			if s := kind(flag); s != ordinary && f.credential(s, value) {
				f.add(value, strings.TrimLeft(flag, "-"))
			}
		}
		flag = ""
		if strings.HasPrefix(word, "--") {
			flag = word
		}
		at = end + 1
	}
}
