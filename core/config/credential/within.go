package credential

import "strings"

// urls finds credentials in the URLs of a text: passwords, secret parameters of the query, and,
// if the text is a server's URL or an argument, random-looking segments of the path.
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

// url looks for credentials in one URL; p is what follows its "://".
func (f *finder) url(scheme string, p part) {
	text, _, _ := strings.Cut(f.of(p), "#")
	before, query, _ := strings.Cut(text, "?")
	authority, path, _ := strings.Cut(before, "/")
	if at := strings.LastIndex(authority, "@"); at >= 0 {
		user, password, hasPassword := strings.Cut(authority[:at], ":")
		switch {
		case hasPassword && password == user: // a well-known default, as in postgres:postgres
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

// path finds random-looking segments of a path: whoever has such a URL may use it. A segment
// after a plural, as in /projects/ID, is an identifier rather than a secret.
func (f *finder) path(host, path string, at int) {
	before := ""
	for segment := range strings.SplitSeq(path, "/") {
		if capability(host, before, segment) && literal(segment) {
			f.add(part{at, at + len(segment)}, "url secret")
		}
		before, at = segment, at+len(segment)+1
	}
}

// capability reports whether a segment of a path looks random; before is the segment before it.
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
	case strings.Contains(segment, "-") && classes < 3: // words, versions and dates
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

// pairs finds credentials in NAME=VALUE and "NAME: VALUE": connection strings, shell
// assignments, headers.
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

// pair looks at the pairs in one field of the text, which may have blanks between them.
func (f *finder) pair(p part) {
	p = f.trim(p) // once, because each value below extends to the end of p
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
			if header { // else it is prose
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

// isHeader reports whether NAME:VALUE is a header rather than, say, an image and its
// tag.
func (f *finder) isHeader(name string, spaced bool) bool {
	lower := strings.ToLower(name)
	return spaced || f.headers || strings.HasPrefix(lower, "x-") || strings.Contains(lower, "authorization") || lower == "api-key" || lower == "apikey" || lower == "cookie"
}

// options finds the values of options such as "--token VALUE" in a shell command line.
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
