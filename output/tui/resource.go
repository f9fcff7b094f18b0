package tui

import (
	"context"
	"fmt"
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/diff"
	"github.com/mcptrack/mcptrack/output/lines"
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
	server, of string
	tab        int
	versions   []history.Version // newest first
	body       []string          // of content and diff; nil until it is loaded
	pair       *pair             // the versions being compared; nil selects the newest two
	marked     *string           // ID of the version to compare with; empty selects the previous one
	list       list
	text       scroller
}

func (p *resourcePage) title() string     { return line(p.of) }
func (p *resourcePage) uri(*model) string { return p.of }

func (p *resourcePage) live() bool { return false }

func (p *resourcePage) concerns(e *event.Event) bool {
	return e.ServerID == p.server && e.ResourceURI == p.of
}

// pair are the IDs of two versions.
type pair struct{ from, to string }

// resourceData is the result of loading the page.
type resourceData struct {
	versions []history.Version
	tab      int
	body     []string
}

func (p *resourcePage) open(m *model) tea.Cmd {
	server, of, tab, pair := p.server, p.of, p.tab, p.pair
	source, styles := m.opts.Source, m.styles
	return m.ask(p, func(ctx context.Context) (any, error) {
		versions, err := source.Versions(ctx, server, of)
		if err != nil {
			return nil, err
		}
		data := resourceData{tab: tab}
		for i := len(versions) - 1; i >= 0; i-- {
			data.versions = append(data.versions, versions[i])
		}
		switch tab {
		case tabContent:
			text, err := source.Text(ctx, server, of, catalog.Digest{})
			if err != nil {
				return nil, err
			}
			data.body = split(text)
		case tabDiff:
			from, to := 1, 0
			if pair != nil {
				from, to = indexOf(data.versions, pair.from), indexOf(data.versions, pair.to)
			}
			data.body, err = compare(ctx, source, styles, server, of, data.versions, from, to)
		}
		return data, err
	})
}

// indexOf returns the index of the version with an ID; -1 if that version is no longer
// available.
func indexOf(versions []history.Version, id string) int {
	return slices.IndexFunc(versions, func(v history.Version) bool { return v.ID == id })
}

// compare returns the lines of a diff.
func compare(ctx context.Context, source DataSource, styles styles, server, uri string, versions []history.Version, from, to int) ([]string, error) {
	switch {
	case from < 0 || to < 0:
		return []string{"", "  One of the versions is no longer stored; choose two others in the history."}, nil
	case from >= len(versions):
		return []string{"", "  There is nothing to compare before the first change."}, nil
	}
	var texts [2]string
	for i, v := range []history.Version{versions[from], versions[to]} {
		if v.Removed {
			return []string{"", "  The resource was removed " + versionLabel(v) + "; choose two other versions in the history."}, nil
		}
		var err error
		if texts[i], err = source.Text(ctx, server, uri, v.Digest); err != nil {
			return []string{"", "  The text of " + versionLabel(v) + " is not stored."}, nil
		}
	}
	out := []string{" " + versionLabel(versions[from]) + " → " + versionLabel(versions[to]) + "   < and > choose older and newer versions"}
	unified := diff.Unified(uri, texts[0], texts[1])
	if unified == "" {
		return append(out, "", "  The texts are equal, or too large to compare."), nil
	}
	for _, l := range split(unified)[2:] {
		switch {
		case strings.HasPrefix(l, "+"):
			l = styles.good.Render(l)
		case strings.HasPrefix(l, "-"):
			l = styles.bad.Render(l)
		case strings.HasPrefix(l, "@"):
			l = styles.title.Render(l)
		}
		out = append(out, l)
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
	p.versions, p.body = data.versions, data.body
}

func (p *resourcePage) key(m *model, key string) tea.Cmd {
	height := m.height - 3
	switch key {
	case "tab":
		return p.show(m, (p.tab+1)%resourceTabs)
	case "shift+tab":
		return p.show(m, (p.tab+resourceTabs-1)%resourceTabs)
	case "1", "2", "3":
		return p.show(m, int(key[0]-'1'))
	case "d":
		return p.show(m, tabDiff)
	case "r":
		return m.reconnect(p.server)
	case "L":
		return m.push(&serverPage{id: p.server, tab: tabLog, text: scroller{tail: true}})
	case "<", ">":
		return p.step(m, map[string]int{"<": 1, ">": -1}[key])
	}
	if p.tab != tabHistory {
		p.text.move(key, len(p.body), height)
		return nil
	}
	if p.list.move(key, len(p.versions), height) || len(p.versions) == 0 {
		return nil
	}
	chosen := p.versions[p.list.cursor].ID
	switch key {
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
	p.tab, p.text, p.body = tab, scroller{}, nil
	return p.open(m)
}

func (p *resourcePage) view(m *model, height int) []string {
	out := []string{m.tabs([]string{"Content", "Differences", "History"}, p.tab)}
	height--
	if p.tab != tabHistory {
		if p.body == nil {
			return append(out, "", "  loading…")
		}
		return append(out, p.text.window(p.body, height)...)
	}
	if len(p.versions) == 0 {
		return append(out, "", "  No change of this resource is stored.")
	}
	from, to := p.list.window(len(p.versions), height)
	for i := from; i < to; i++ {
		v := p.versions[i]
		size, digest := "", "removed"
		if v.Size != nil {
			size = lines.Size(*v.Size)
		}
		if !v.Removed {
			digest = strings.TrimPrefix(v.Digest.String(), "sha256:")[:8]
		}
		text := fmt.Sprintf("  %s %s %s %s", pad(versionLabel(v), 23), pad(lines.Found(v.Cause), 23), right(size, 10), digest)
		if p.marked != nil && *p.marked == v.ID {
			text = "● " + text[2:]
		}
		out = append(out, m.row(m.styles.dim, pad(since(m.now, v.Timestamp), ageWidth), text, i == p.list.cursor))
	}
	return out
}
