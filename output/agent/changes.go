package agent

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/output/diff"
)

const (
	// MaxLine limits the length of a line in bytes, including its newline.
	MaxLine = 400
	// Every is the minimum time between two lines.
	Every = time.Second
	// gather is the delay between a change and the line that reports it, because changes come in
	// groups.
	gather = 300 * time.Millisecond
)

// lines collects changes and writes them as lines. It is not safe for concurrent use.
type lines struct {
	w io.Writer
	// lists is whether the resources of a changed list are named. Otherwise their own events name them, if they
	// are followed.
	lists bool

	changes
	first time.Time // when the first pending change was added; zero if none is pending
	last  time.Time // when the last line was written
}

func (l *lines) take(e *event.Event) {
	l.event(e, l.lists)
	l.noted()
}

func (l *lines) note(k changeKey, verb string) {
	l.add(k, verb, nil, nil)
	l.noted()
}

func (l *lines) noted() {
	if l.first.IsZero() && !l.empty() {
		l.first = time.Now()
	}
}

// due returns how long to wait before the next line may be written, and whether there is
// anything to report. With hurry, it does not wait for further changes.
func (l *lines) due(hurry bool) (wait time.Duration, any bool) {
	if l.empty() {
		return 0, false
	}
	if !l.last.IsZero() {
		wait = Every - time.Since(l.last)
	}
	if !hurry {
		wait = max(wait, gather-time.Since(l.first))
	}
	return wait, true
}

// print writes all changes as one line.
func (l *lines) print() error {
	text := l.line(MaxLine-1) + "\n"
	l.changes, l.first, l.last = changes{}, time.Time{}, time.Now()
	if _, err := io.WriteString(l.w, text); err != nil {
		return fmt.Errorf("write a line: %w", err)
	}
	return nil
}

const (
	maxKept = 64     // changes kept in full for the next line, more than a line can show
	maxKeys = 20_000 // distinct items; changes of further items are only counted
)

// changes collects the changes for the next line. The zero value is ready to use.
type changes struct {
	byKey map[changeKey]*change // a nil value means that the change is only counted
	order []*change
	more  int // number of changes beyond maxKeys
}

type changeKey struct{ server, kind, key string }

// change is the accumulated change of one item.
type change struct {
	changeKey
	verb     string
	from, to *string // text before and after; nil if unknown
}

// add records a change, merging it with an earlier one of the same item.
func (c *changes) add(k changeKey, verb string, from, to *string) {
	old, known := c.byKey[k]
	switch {
	case known && old != nil:
		if old.verb != string(catalog.Added) || verb == string(catalog.Removed) {
			old.verb = verb
		}
		if old.to != nil || to == nil {
			old.to = to
		}
	case known:
	case len(c.byKey) >= maxKeys:
		c.more++
	default:
		if c.byKey == nil {
			c.byKey = map[changeKey]*change{}
		}
		var kept *change
		if len(c.order) < maxKept {
			kept = &change{k, verb, from, to}
			c.order = append(c.order, kept)
		}
		c.byKey[k] = kept
	}
}

func (c *changes) empty() bool { return len(c.byKey)+c.more == 0 }

// count returns how many items changed.
func (c *changes) count() int { return len(c.byKey) + c.more }

// gapVerb says that changes are missing, which are then in no line.
const gapVerb = "some changes are no longer known"

// event adds the changes in an event, in the words of its description. lists is as in lines.
func (c *changes) event(e *event.Event, lists bool) {
	light := *e // without the texts of an update, whose lines are counted when the line is written
	var from, to *string
	if p, ok := e.Payload.(event.ResourceUpdated); ok {
		from, to, p.PreviousText, p.Text = p.PreviousText, p.Text, nil, nil
		light.Payload = p
	}
	d := light.Describe()
	switch p := light.Payload.(type) {
	case event.ResourceUpdated:
		if p.Changed == nil || *p.Changed {
			c.add(changeKey{e.ServerID, "", d.Subject}, d.Verb, from, to)
		}
	case event.ResourceAdded, event.ResourceRemoved:
		c.add(changeKey{e.ServerID, "", d.Subject}, d.Verb, nil, nil)
	case event.ResourceChanged:
		c.add(changeKey{e.ServerID, "description of", d.Subject}, string(catalog.Changed), nil, nil)
	case event.ListChanged:
		if p.List != catalog.Resources || lists {
			c.items(e.ServerID, strings.TrimSuffix(string(p.List), "s"), d.Items)
		}
	case event.SkillMismatch:
		c.add(changeKey{e.ServerID, d.Verb, d.Subject}, "", nil, nil)
	case event.CardChanged:
		c.add(changeKey{e.ServerID, "card", ""}, d.Verb, nil, nil)
	case event.LockDrift:
		c.add(changeKey{e.ServerID, d.Verb, d.Subject}, plain(d.Text), nil, nil)
	case event.HookReceived, event.WebhookDisabled:
		c.add(changeKey{"", d.Verb, d.Subject}, "", nil, nil)
	case event.ConfigReloaded:
		c.items("", "server", d.Items)
	case event.ConfigRejected:
		c.add(changeKey{"", "config", ""}, d.Verb, nil, nil)
	case event.Gap:
		c.add(changeKey{"", "gap", ""}, gapVerb, nil, nil)
	}
}

// items adds the changes of a list.
func (c *changes) items(server, kind string, all []event.Item) {
	for _, it := range all {
		of := kind
		switch {
		case kind == "resource" && it.Op == catalog.Changed:
			of = "description of"
		case kind == "resource":
			of = ""
		}
		c.add(changeKey{server, of, it.Name}, string(it.Op), nil, nil)
	}
}

// line returns the changes as one line of at most limit bytes.
func (c *changes) line(limit int) string {
	var b strings.Builder
	shown := 0
	last := "" // server of the last change on the line
	for _, server := range c.servers() {
		for _, ch := range c.order {
			if ch.server != server {
				continue
			}
			text, separator := ch.String(), ", "
			if b.Len() == 0 || server != last {
				text, separator = heading(server)+": "+text, "; "
			}
			if b.Len() > 0 {
				text = separator + text
			}
			rest := c.count() - shown - 1
			size := ""
			if b.Len()+len(text)+maxSize+len(more(rest)) <= limit {
				size = ch.size()
			}
			if b.Len()+len(text)+len(size)+len(more(rest)) > limit {
				continue // a shorter change may fit
			}
			b.WriteString(text + size)
			last = server
			shown++
		}
	}
	b.WriteString(more(c.count() - shown))
	return b.String()
}

// heading returns the name that starts a server's part of a line; an empty server means mcptrack.
func heading(server string) string {
	if server == "" {
		return "mcptrack"
	}
	return name(server, maxServer)
}

func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d more", n)
}

// servers returns the servers in the order of their first changes.
func (c *changes) servers() (ids []string) {
	for _, ch := range c.order {
		if !slices.Contains(ids, ch.server) {
			ids = append(ids, ch.server)
		}
	}
	return ids
}

func (ch *change) String() string {
	if ch.key == "" && ch.kind != "" { // a change to the server itself or to the config
		return ch.verb
	}
	return strings.TrimSpace(ch.kind + " " + name(ch.key, maxKey) + " " + ch.verb)
}

// maxSize is the maximum length of a text from size.
const maxSize = len(" (1048576 lines)")

// size returns the number of changed lines, such as " (2 lines)", or "" if it is unknown.
func (ch *change) size() string {
	if ch.verb == string(catalog.Added) || ch.from == nil || ch.to == nil {
		return ""
	}
	switch n := diff.Lines(*ch.from, *ch.to); n {
	case 0:
		return ""
	case 1:
		return " (1 line)"
	default:
		return fmt.Sprintf(" (%d lines)", n)
	}
}

// Limits for names in a line, in bytes.
const (
	maxServer = 48
	maxKey    = 160
)

// name formats an untrusted name in at most limit bytes so that it is recognizable as a name: it
// is unchanged if it consists of characters of URIs, and quoted otherwise. An ellipsis marks
// where it was shortened.
func name(s string, limit int) string {
	if s != "" && strings.IndexFunc(s, func(r rune) bool { return !inURI(r) }) < 0 {
		if len(s) <= limit {
			return s
		}
		tail := limit / 3 // the end of a URI identifies it better than its middle
		return s[:limit-tail-len("…")] + "…" + s[len(s)-tail:]
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		shown := string(r)
		switch {
		case r == utf8.RuneError && size == 1:
			shown = fmt.Sprintf(`\x%02x`, s[i])
		case !showable(r):
			shown = fmt.Sprintf(`\u%04x`, r)
			if r > 0xFFFF {
				shown = fmt.Sprintf(`\U%08x`, r)
			}
		}
		if b.Len()+len(shown)+len(`…"`) > limit {
			b.WriteString("…")
			break
		}
		b.WriteString(shown)
		i += size
	}
	b.WriteByte('"')
	return b.String()
}

// plain returns a statement without the characters that a line may not have, in at most maxKey bytes.
func plain(s string) string {
	var b strings.Builder
	for _, r := range s {
		if showable(r) && b.Len()+utf8.RuneLen(r) <= maxKey {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// inURI reports whether a rune may occur in a URI (RFC 3986).
func inURI(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
		r < utf8.RuneSelf && strings.ContainsRune("-._~:/?#[]@!$&'()*+,;=%", r)
}

// showable reports whether a rune may appear unescaped inside the quotes: it must be visible, and
// must end neither the quotes nor any delimiter that a host puts around a line.
func showable(r rune) bool {
	switch r {
	case ' ':
		return true
	case '\u115f', '\u1160', '\u3164', '\uffa0': // fillers
		return false
	}
	return inURI(r) || unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.In(r, unicode.Mc)
}
