package tui

import (
	"context"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/textdiff"
	"github.com/mcptrack/mcptrack/output/termtext"
)

// The tabs of a resource's page.
const (
	tabContent = iota
	tabDiff
	tabHistory
	resourceTabs
)

// maxLines bounds the lines of a text that are shown.
const maxLines = 20_000

// resourcePage shows one resource: its content, the difference of two versions, and its
// versions.
type resourcePage struct {
	basePage
	server, of string
	tab        int
	versions   []history.Version // newest first
	event      *event.Event      // the change to show; nil selects the newest one
	pair       *pair             // the versions being compared; nil selects the newest two
	marked     *string           // ID of the version to compare with; empty selects the previous one
	list       table
	text       textView // content or diff
}

func (p *resourcePage) title() string     { return line(p.of) }
func (p *resourcePage) uri(*model) string { return p.of }

func (p *resourcePage) keys(m *model) []string {
	switch p.tab {
	case tabHistory:
		return []string{"enter compare", "m mark", "tab next", "y copy URI"}
	case tabDiff:
		return []string{"< older", "> newer", "tab next", "up/down scroll", "y copy URI"}
	}
	return []string{"d diff", "tab next", "up/down scroll", "y copy URI", "L log"}
}

func (p *resourcePage) concerns(e *event.Event) bool {
	return e.ServerID == p.server && e.ResourceURI == p.of
}

// pair are the IDs of two versions.
type pair struct{ from, to string }

// resourceData is the result of loading the page.
type resourceData struct {
	versions []history.Version
	tab      int
	body     []textLine
}

func (p *resourcePage) open(m *model) tea.Cmd {
	page, source, styles := *p, m.opts.Source, m.styles // the page may change meanwhile
	return m.ask(p, func(ctx context.Context) (any, error) { return page.load(ctx, source, styles) })
}

func (p *resourcePage) load(ctx context.Context, source *Source, styles styles) (any, error) {
	versions, err := source.Versions(ctx, p.server, p.of)
	if err != nil {
		return nil, err
	}
	data := resourceData{tab: p.tab}
	for _, v := range slices.Backward(versions) {
		data.versions = append(data.versions, v)
	}
	switch p.tab {
	case tabContent:
		text, err := source.Text(ctx, p.server, p.of, catalog.Digest{})
		if err != nil {
			return nil, err
		}
		for _, l := range split(text) {
			data.body = append(data.body, textLine{text: l})
		}
	case tabDiff:
		from, to, all := 1, 0, data.versions
		switch {
		case p.pair != nil:
			from, to = indexOf(all, p.pair.from), indexOf(all, p.pair.to)
		case p.event != nil:
			if to = indexOf(all, p.event.ID); to < 0 { // not stored: the event itself has the digests
				all, to = ofEvent(p.event), 0
			}
			from = to + 1
		}
		data.body, err = compare(ctx, source, styles, p.server, p.of, all, from, to)
	}
	return data, err
}

// indexOf returns the index of the version with an ID; -1 if that version is no longer
// available.
func indexOf(versions []history.Version, id string) int {
	return slices.IndexFunc(versions, func(v history.Version) bool { return v.ID == id })
}

// ofEvent returns the versions that one event describes, newest first.
func ofEvent(e *event.Event) []history.Version {
	versions, _ := history.Versions(func(yield func(event.Event, error) bool) { yield(*e, nil) }, 2)
	slices.Reverse(versions)
	return versions
}

// compare returns the lines of a diff.
func compare(ctx context.Context, source *Source, styles styles, server, uri string, versions []history.Version, from, to int) ([]textLine, error) {
	say := func(text string) ([]textLine, error) { return []textLine{{}, {text: "  " + text, indent: 2}}, nil }
	switch {
	case len(versions) == 0:
		return say("No change of this resource is stored.")
	case from < 0 || to < 0:
		return say("One of the versions is no longer stored; choose two others in the history.")
	case from >= len(versions):
		return say("There is nothing to compare before the first change.")
	}
	var texts [2]string
	for i, v := range []history.Version{versions[from], versions[to]} {
		if v.Removed { // nothing is left
			continue
		}
		var err error
		if texts[i], err = source.Text(ctx, server, uri, v.Digest); err != nil {
			return say("The text of " + versionLabel(v) + " is not stored.")
		}
	}
	label := versionLabel(versions[to])
	if versions[to].Removed {
		label = "removed " + label
	}
	out := []textLine{{text: " " + versionLabel(versions[from]) + " → " + label, style: styles.bold}}
	unified := textdiff.Unified(uri, texts[0], texts[1])
	if unified == "" {
		return append(out, textLine{}, textLine{text: "  The texts are equal, or too large to compare.", indent: 2}), nil
	}
	for _, l := range split(unified)[2:] {
		colour := map[byte]termtext.Colour{'+': styles.good, '-': styles.bad, '@': styles.title}[(l + " ")[0]]
		out = append(out, textLine{text: l, style: colour, indent: 1})
	}
	return out, nil
}

func versionLabel(v history.Version) string {
	if v.ID == "" {
		return "before the first change"
	}
	return v.Timestamp.Local().Format("Jan 2 15:04:05")
}

// split returns the lines of an untrusted text, printable.
func split(text string) []string {
	out := strings.SplitN(printable.Lines(text), "\n", maxLines+1)
	if len(out) > maxLines {
		out[maxLines] = "  more lines are not shown"
	}
	for i := range out {
		out[i] = strings.ReplaceAll(out[i], "\t", "    ")
	}
	return out
}

func (p *resourcePage) loaded(_ *model, v any) {
	data, ok := v.(resourceData)
	if !ok || data.tab != p.tab {
		return
	}
	p.versions = data.versions
	p.text.set(data.body)
}

func (p *resourcePage) key(m *model, key string) tea.Cmd {
	if tab, ok := tabOf(key, p.tab, resourceTabs); ok {
		return p.show(m, tab)
	}
	switch key {
	case "d":
		return p.show(m, tabDiff)
	case "r", "L", "e":
		return m.ofServer(key, p.server)
	case "<":
		return p.step(m, 1)
	case ">":
		return p.step(m, -1)
	}
	if p.tab != tabHistory {
		p.text.move(key)
		return nil
	}
	if p.list.move(key, len(p.versions)) || len(p.versions) == 0 {
		return nil
	}
	switch chosen := p.versions[p.list.cursor].ID; key {
	case "m":
		if p.marked != nil && *p.marked == chosen {
			p.marked = nil
		} else {
			p.marked = &chosen
		}
	case "enter":
		return p.compare(m)
	}
	return nil
}

// compare shows the difference between the version at the cursor and the marked one, or,
// without a mark, the previous one.
func (p *resourcePage) compare(m *model) tea.Cmd {
	older, newer := p.list.cursor+1, p.list.cursor
	if p.marked != nil {
		if i := indexOf(p.versions, *p.marked); i >= 0 && i != newer {
			older, newer = max(i, newer), min(i, newer)
		}
	}
	if older >= len(p.versions) {
		m.notice = "there is no older version"
		return nil
	}
	p.pair = &pair{p.versions[older].ID, p.versions[newer].ID}
	return p.show(m, tabDiff)
}

// step shows the difference of the next older or newer pair of versions.
func (p *resourcePage) step(m *model, by int) tea.Cmd {
	at := 0
	if p.event != nil {
		at = max(0, indexOf(p.versions, p.event.ID))
	}
	if p.pair != nil {
		at = indexOf(p.versions, p.pair.to)
	}
	at += by
	if p.tab != tabDiff || at < 0 || at+1 >= len(p.versions) {
		return nil
	}
	p.pair = &pair{p.versions[at+1].ID, p.versions[at].ID}
	return p.show(m, tabDiff)
}

func (p *resourcePage) show(m *model, tab int) tea.Cmd {
	p.tab, p.text = tab, textView{}
	return p.open(m)
}

func (p *resourcePage) view(m *model, height int) []string {
	height--
	tabs := m.tabs([]string{"Content", "Differences", "History"}, p.tab, func(int) bool { return false })
	if p.tab != tabHistory {
		if p.text.lines == nil {
			return []string{tabs, "", "  loading…"}
		}
		body := p.text.view(m.width, height, "")
		return append([]string{m.spread(tabs, m.styles.dim.Paint(p.text.position()))}, body...)
	}
	out := []string{m.spread(tabs, m.styles.dim.Paint(position(p.list.cursor, len(p.versions))))}
	columns := []column{{head: "AGE"}, {}, {head: "VERSION"}, {head: "FOUND"}, {head: "SIZE", kind: right}, {head: "DIGEST"}}
	return append(out, p.list.view(m, columns, "", len(p.versions), height, p.list.cursor, "No change of this resource is stored.", func(i int) []cell {
		v := p.versions[i]
		mark, size, digest := " ", "", "removed"
		if v.Size != nil {
			size = printable.Size(*v.Size)
		}
		if !v.Removed {
			digest = strings.TrimPrefix(v.Digest.String(), "sha256:")[:8]
		}
		if p.marked != nil && *p.marked == v.ID {
			mark = "●"
		}
		return []cell{{since(m.now, v.Timestamp), m.styles.dim}, {text: mark}, {text: versionLabel(v)}, {text: v.Cause.Words()}, {text: size}, {text: digest}}
	})...)
}
