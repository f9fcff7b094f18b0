package agent

import (
	"fmt"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/output/diff"
)

const (
	// maxKept bounds the changes kept in full for the next line, which is more than a line can
	// show. maxKeys bounds the distinct items; changes of further ones are only counted.
	maxKept = 64
	maxKeys = 20_000
)

// changes are the changes to report in the next line. The zero value is ready to use.
type changes struct {
	byKey map[changeKey]*change // value nil: the change is only counted
	order []*change
	more  int // changes beyond maxKeys
}

type changeKey struct{ server, kind, key string }

// change is the accumulated change of one item.
type change struct {
	changeKey
	verb     string
	from, to *string // the texts before and after; nil: unknown
}

// add records a change, merging it with an earlier one of the same item.
func (c *changes) add(k changeKey, verb string, from, to *string) {
	old, known := c.byKey[k]
	switch {
	case known && old != nil:
		if verb != changed || old.verb != added {
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

// What happened to an item.
const (
	changed = "changed"
	added   = "added"
	removed = "removed"
	gapVerb = "some changes are no longer known"
)

// event records what an event reports, if agents need it. tracks reports whether a resource of
// a server is followed.
func (c *changes) event(e *event.Event, tracks func(server, uri string) bool) {
	resource := changeKey{e.ServerID, "", e.ResourceURI}
	switch p := e.Payload.(type) {
	case event.ResourceUpdated:
		if p.Changed == nil || *p.Changed {
			c.add(resource, changed, p.PreviousText, p.Text)
		}
	case event.ResourceRemoved:
		c.add(resource, removed, nil, nil)
	case event.ListChanged:
		c.list(e.ServerID, p, tracks)
	case event.ConfigReloaded:
		for verb, ids := range map[string][]string{added: p.Added, removed: p.Removed, changed: p.Changed} {
			for _, id := range ids {
				c.add(changeKey{"", "server", id}, verb, nil, nil)
			}
		}
	case event.ConfigRejected:
		c.add(changeKey{"", "config", ""}, "config invalid, the last valid one stays in use", nil, nil)
	case event.Gap:
		c.add(changeKey{"", "gap", ""}, gapVerb, nil, nil)
	}
}

// list records how a list changed, including the changes that other events report for single
// resources.
func (c *changes) list(server string, p event.ListChanged, tracks func(server, uri string) bool) {
	kind := map[catalog.Kind]string{catalog.Tools: "tool", catalog.Prompts: "prompt", catalog.Templates: "template", catalog.Resources: ""}[p.List]
	note := func(keys []string, verb string) {
		for _, key := range keys {
			if p.List != catalog.Resources || tracks(server, key) {
				c.add(changeKey{server, kind, key}, verb, nil, nil)
			}
		}
	}
	note(p.Added, added)
	note(p.Removed, removed)
	if p.List == catalog.Resources {
		for _, uri := range p.Changed {
			if tracks(server, uri) {
				c.add(changeKey{server, "description of", uri}, changed, nil, nil)
			}
		}
		return
	}
	note(p.Changed, changed)
}

// line returns the changes as one line of at most limit bytes.
func (c *changes) line(limit int) string {
	var b strings.Builder
	shown := 0
	last := "" // the server of the last change that is shown
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
				continue // a shorter one may fit
			}
			b.WriteString(text + size)
			last = server
			shown++
		}
	}
	b.WriteString(more(c.count() - shown))
	return b.String()
}

// heading returns how a line names a server, or mcptrack itself.
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

// servers returns the servers of the changes, in their order.
func (c *changes) servers() (ids []string) {
	seen := map[string]bool{}
	for _, ch := range c.order {
		if !seen[ch.server] {
			seen[ch.server] = true
			ids = append(ids, ch.server)
		}
	}
	return ids
}

func (ch *change) String() string {
	if ch.key == "" && ch.kind != "" { // about the server itself, or the config
		return ch.verb
	}
	text := name(ch.key, maxKey) + " " + ch.verb
	if ch.kind != "" {
		text = ch.kind + " " + text
	}
	return text
}

// maxSize is the length of the longest text that size returns.
const maxSize = len(" (1048576 lines)")

// size returns how many lines of a resource changed, as text; "" if unknown.
func (ch *change) size() string {
	if ch.verb != changed || ch.from == nil || ch.to == nil {
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
