package lock

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"golang.org/x/text/unicode/norm"

	"github.com/mcptrack/mcptrack/core/printable"
)

// A Reason is something suspicious in a new definition that the old one did not contain.
type Reason struct {
	Kind    string `json:"kind"`    // one of [Link], [Secret], [Phrase], [Hidden], [Script] and [Twin]
	Excerpt string `json:"text"`    // the place in the text with what is around it, on one line, hidden characters as <U+200B>
	Pointer string `json:"pointer"` // JSON Pointer (RFC 6901) to the text, in the new definition; a name of a member stands for itself
}

// The kinds of reasons.
const (
	Link   = "link"   // a URL or an address of mail, other than those that RFC 2606 reserves for examples
	Secret = "secret" // a word for secrets, or a file with secrets
	Phrase = "phrase" // a phrase or tag that instructs a model
	Hidden = "hidden" // a hidden character, or a run of them, or of white space
	Script = "script" // a word of ASCII and letters of another script that look like ASCII
	Twin   = "twin"   // a name that looks like another one; only of [Drift.Reasons]
)

// Limits of the reasons for one definition.
const (
	maxReasons   = 50
	excerptRunes = 60 // before and after what was found, each
	maxToken     = 64 // bytes of one name in a pointer
	paddingRunes = 100
)

// Reasons returns what is suspicious in new and was not in old, in the order of the members' names,
// at most 50. old is nil for an added item: then everything in new counts. What is in old anywhere
// does not count: a sentence may move from one member to another. Hidden characters count if there
// are more of them.
//
// The rules are a list of words: they find what attackers wrote until now, and honest texts that talk
// about secrets or address the model. They are a reason to read the text, and no proof. Letters that
// only look like ASCII and hidden characters inside of words do not disturb them. Time and memory are
// proportional to the sizes of old and new.
func Reasons(old, new json.RawMessage) []Reason {
	return reasonsIn("", old, new)
}

// Reasons returns why the drift has the class L009, if it has: see [Reasons]. A launch is not searched. In
// contents, links and words for secrets do not count, because documents are about them.
func (d Drift) Reasons() (all []Reason) {
	if d.Twin != "" {
		all = []Reason{{Kind: Twin, Excerpt: "looks like " + printable.Line(printable.Marked(d.Twin), 4*excerptRunes), Pointer: "/name"}}
	}
	if d.Section == SectionLaunch {
		return all
	}
	return append(all, reasonsIn(d.Section, d.Old.compared(), d.New.compared())...)
}

// reasonsIn is [Reasons] for an item of a section.
func reasonsIn(section Section, old, new json.RawMessage) []Reason {
	a, b, same, _ := nodes{}.pair(old, new)
	if same {
		return nil
	}
	return reasons(section, a, b, old, new)
}

// reasons is reasonsIn for nodes. Where a definition cannot be read, its bytes are one text.
func reasons(section Section, a, b *node, old, new json.RawMessage) []Reason {
	if new == nil {
		return nil
	}
	document := section == SectionContents
	before := finder{lexicon: newLexicon(), seen: map[string]int{}, document: document}
	before.definition(a, old)
	after := finder{lexicon: before.lexicon, known: before.seen, seen: map[string]int{}, collect: true, document: document}
	after.definition(b, new)
	return after.reasons
}

// A finder looks for what is suspicious in the texts of one definition.
type finder struct {
	lexicon  lexicon
	document bool           // links and words for secrets do not count
	known    map[string]int // what the old definition contains, by kind and text
	seen     map[string]int // what this one contains
	collect  bool
	reasons  []Reason
	path     []string // to the text
}

func (f *finder) definition(n *node, raw json.RawMessage) {
	switch {
	case n != nil:
		f.node(n)
	case raw != nil:
		f.text(string(raw), true)
	}
}

func (f *finder) node(n *node) {
	switch n.kind {
	case jsontext.KindString:
		f.text(n.text, !f.address(n.text))
	case jsontext.KindBeginArray:
		for i, item := range n.items {
			f.at(strconv.Itoa(i), func() { f.node(item) })
		}
	case jsontext.KindBeginObject:
		for _, name := range n.names {
			f.at(name, func() {
				f.text(name, true)
				f.node(n.members[name])
			})
		}
	}
}

func (f *finder) at(token string, visit func()) {
	f.path = append(f.path, token)
	visit()
	f.path = f.path[:len(f.path)-1]
}

// address reports whether the text at the path is an address by its purpose: the item's own URI, an
// icon, or the dialect of a schema.
func (f *finder) address(text string) bool {
	switch last := len(f.path) - 1; {
	case last < 0:
		return false
	case f.path[last] == "$schema":
		return strings.HasPrefix(text, "http://json-schema.org/draft-") || strings.HasPrefix(text, "https://json-schema.org/draft")
	case last == 0:
		return f.path[0] == "uri" || f.path[0] == "uriTemplate"
	default:
		return f.path[0] == "icons" && f.path[last] == "src"
	}
}

// text looks at one text. Links count if it is no address by its purpose.
func (f *finder) text(s string, links bool) {
	if f.hidden(s); links {
		f.links(s)
	}
	f.scripts(s)
	p := fold(s)
	f.lexicon.match(p, func(kind, key string, from, to int) {
		f.found(kind, key, s, p.at[from], p.at[to])
	})
}

// found notes what is at s[from:to]. key names it for the comparison with the old definition.
func (f *finder) found(kind, key, s string, from, to int) {
	if f.document && (kind == Link || kind == Secret) {
		return
	}
	key = kind + " " + key
	f.seen[key]++
	now, was := f.seen[key], f.known[key]
	if !f.collect || len(f.reasons) == maxReasons || now != was+1 || kind != Hidden && was > 0 {
		return
	}
	for range excerptRunes {
		_, n := utf8.DecodeLastRuneInString(s[:from])
		_, m := utf8.DecodeRuneInString(s[min(to, len(s)):])
		from, to = from-n, to+m
	}
	excerpt := printable.Line(printable.Marked(s[from:min(to, len(s), from+16*excerptRunes)]), 4*excerptRunes-1)
	if before, _ := utf8.DecodeLastRuneInString(s[:from]); from > 0 && !unicode.IsSpace(before) {
		excerpt = "…" + excerpt // it begins in the middle of a word
	}
	f.reasons = append(f.reasons, Reason{Kind: kind, Excerpt: excerpt, Pointer: f.pointer()})
}

func (f *finder) pointer() string {
	var b strings.Builder
	for _, token := range f.path {
		if len(token) > maxToken {
			token = strings.ToValidUTF8(token[:maxToken], "") + "…"
		}
		b.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(token))
	}
	return printable.Line(b.String(), 0)
}

// hidden finds runs of hidden characters, and of white space that moves a text out of sight.
func (f *finder) hidden(s string) {
	start, blank, blanks := -1, 0, 0
	end := func(i int) {
		if start >= 0 {
			f.found(Hidden, s[start:i], s, start, i)
			start = -1
		}
	}
	for i, r := range s {
		ordinary := r >= 0x20 && r < 0x7f
		if ordinary && r != ' ' || !ordinary && !unicode.IsSpace(r) {
			blank, blanks = i+1, 0
		} else if blanks++; blanks == paddingRunes {
			f.found(Hidden, "padding", s, blank, i)
		}
		switch {
		case ordinary, r == '\n', r == '\t', r == '\r', !printable.Hidden(s, i):
			end(i)
		case start < 0:
			start = i
		}
	}
	end(len(s))
}

// links finds URLs with a host, addresses that begin with www, well-known hosts with a path, and
// addresses of mail.
func (f *finder) links(s string) {
	for i := 0; i < len(s); {
		if !isAddress(s[i]) {
			i++
			continue
		}
		end := i
		for end < len(s) && isAddress(s[end]) {
			end++
		}
		token := s[i:end]
		from := i
		i = end
		if scheme := strings.Index(token, "://"); scheme >= 0 { // also after a prefix, as in url=https://…
			begin := scheme
			for begin > 0 && isLetter(token[begin-1]) {
				begin--
			}
			from, token = from+begin, token[begin:]
		} else if begin := strings.Index(token, "//"); begin > 0 {
			from, token = from+begin, token[begin:]
		}
		token = strings.TrimRight(token, ".,:;!?*_~'&=#/")
		if key := linkKey(token); key != "" {
			f.found(Link, key, s, from, from+len(token))
		}
	}
}

func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// isAddress reports whether a byte may be part of a URL in a text. Braces may, because templates in
// URLs take data out.
func isAddress(c byte) bool {
	return isLetter(c) || isDigit(c) || c >= utf8.RuneSelf || strings.IndexByte("-._~:/?#@!$&*+;=%{},'", c) >= 0
}

// linkKey returns the key of a URL or an address of mail, or "" if the token is neither or is an example.
func linkKey(token string) string {
	scheme, rest, ok := strings.Cut(token, "://")
	if ok {
		switch strings.ToLower(scheme) {
		case "http", "https", "ws", "wss", "ftp", "ftps", "sftp", "ssh", "git":
		default:
			return ""
		}
	} else if rest = strings.TrimPrefix(token, "//"); strings.HasPrefix(strings.ToLower(rest), "mailto:") {
		rest = rest[len("mailto:"):]
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	authority := strings.ToLower(rest[:end])
	account, host, mail := strings.Cut(authority, "@")
	if !mail {
		host = authority
	} else if !ok && (account == "" || end < len(rest)) {
		return "" // a scoped package, or a version after @
	}
	host, port, _ := strings.Cut(host, ":")
	last := host[strings.LastIndexByte(host, '.')+1:]
	domain := strings.TrimSuffix(host, "."+last)
	switch {
	case host == "" || host[0] != '{' && !isLetter(host[0]) && !isDigit(host[0]) && host[0] < utf8.RuneSelf:
		return ""
	case last == "example", last == "test", last == "invalid":
		return ""
	case (last == "com" || last == "net" || last == "org") && (domain == "example" || strings.HasSuffix(domain, ".example")):
		return ""
	case ok:
		if domain == host && port == "" && host != "localhost" {
			return "" // a placeholder for a host
		}
		return authority + rest[end:]
	case domain == host || len(last) < 2 || !isLetter(last[0]):
		return ""
	case mail, strings.HasPrefix(host, "www."), end < len(rest) && rest[end] == '/' && commonDomain(last):
		return authority + rest[end:]
	}
	return ""
}

// commonDomain reports whether a top-level domain is common in links and is no ending of files.
func commonDomain(domain string) bool {
	switch domain {
	case "com", "net", "org", "io", "dev", "ai", "app", "co", "xyz", "me", "ru", "cn", "info", "biz", "cloud", "site",
		"online", "top", "link", "click", "ly", "gg", "eu", "uk", "de", "fr", "nl", "us", "tk", "ml", "edu", "gov":
		return true
	}
	return false
}

// scripts finds words of mixed scripts.
func (f *finder) scripts(s string) {
	start, ascii, alien := 0, false, false
	end := func(i int) {
		if ascii && alien {
			f.found(Script, s[start:i], s, start, i)
		}
		ascii, alien = false, false
	}
	for i, r := range s {
		switch {
		case r < utf8.RuneSelf && isLetter(byte(r)):
			ascii = true
		case r >= utf8.RuneSelf && unicode.IsLetter(r):
			alien = alien || isAlien(r)
		default:
			end(i)
			start = i + utf8.RuneLen(r)
		}
	}
	end(len(s))
}

// isAlien reports whether a letter looks like ASCII, but belongs to another script. Greek letters that
// honest texts write beside Latin ones, as in TGFβ, do not count.
func isAlien(r rune) bool {
	if unicode.Is(unicode.Greek, r) {
		return strings.ContainsRune("οΑΒΕΖΗΙΚΜΝΟΡΤΥΧ", r)
	}
	_, like := lookalike(r)
	return like && unicode.In(r, unicode.Cyrillic, unicode.Armenian, unicode.Cherokee, unicode.Coptic, unicode.Lisu, unicode.Deseret)
}

// lookalike returns the ASCII letter or digit that a character is a form of (width, mathematical
// letters and others) or looks like.
func lookalike(r rune) (byte, bool) {
	if plain := norm.NFKC.PropertiesString(string(r)).Decomposition(); len(plain) == 1 {
		return plain[0], isLetter(plain[0]) || isDigit(plain[0])
	}
	switch plain := looksLike(r); {
	case plain == "rn":
		return 'm', true
	case plain == "l" && unicode.IsUpper(r):
		return 'I', true
	case len(plain) == 1 && (isLetter(plain[0]) || isDigit(plain[0])):
		return plain[0], true
	}
	return 0, false
}
