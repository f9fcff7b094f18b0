package tui

import (
	"context"
	"fmt"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

// maxFilter bounds the length of a filter that the user types.
const maxFilter = 100

// key handles a key press; text is the text that the key types.
func (m *model) key(key, text string) tea.Cmd {
	if key == "ctrl+c" {
		return tea.Quit
	}
	if m.typing {
		m.typeFilter(key, text)
		return nil
	}
	if m.help {
		m.help = false
		return nil
	}
	switch key {
	case "?":
		m.help = true
	case "/":
		m.typing, m.filter = true, ""
	case "p":
		m.paused = !m.paused
	case "y":
		return m.copyURI()
	case "q", "esc", "backspace", "left", "h":
		return m.back(key)
	default:
		return m.top().key(m, key)
	}
	return nil
}

// back clears the filter, or else leaves the page; q on the first page quits.
func (m *model) back(key string) tea.Cmd {
	switch {
	case m.filter != "" && key != "q":
		m.filter = ""
	case len(m.pages) > 1:
		m.pages, m.filter = m.pages[:len(m.pages)-1], ""
	case key == "q":
		return tea.Quit
	}
	return nil
}

func (m *model) typeFilter(key, text string) {
	switch key {
	case "enter":
		m.typing = false
	case "esc":
		m.typing, m.filter = false, ""
	case "backspace":
		_, n := utf8.DecodeLastRuneInString(m.filter)
		m.filter = m.filter[:len(m.filter)-n]
	default:
		if len(m.filter)+len(text) <= maxFilter {
			m.filter += line(text)
		}
	}
}

func (m *model) copyURI() tea.Cmd {
	uri := m.top().uri(m)
	if uri == "" {
		m.notice = "no resource is selected"
		return nil
	}
	m.notice = "copied " + line(uri)
	return tea.SetClipboard(uri)
}

// reconnect asks the source for a new connection to a server.
func (m *model) reconnect(server string) tea.Cmd {
	m.notice = "reconnecting " + line(server)
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, requestTime)
		defer cancel()
		if err := m.opts.Source.Reconnect(ctx, server); err != nil {
			return done{fmt.Sprintf("reconnect %s: %s", line(server), line(err.Error()))}
		}
		return done{"reconnected " + line(server)}
	}
}

func helpLines(m *model) []string {
	lines := []string{""}
	for _, k := range [][2]string{
		{"up/down, k/j", "move; PgUp, PgDn: by a page; g, G: to the start, to the end"},
		{"enter, right, l", "open the server or resource"},
		{"q, esc, left, h", "back; q on the first page quits"},
		{"tab, 1-5", "switch between the tabs of a page"},
		{"/", "filter the list; esc clears the filter"},
		{"d, < and >", "differences between versions of a resource; older, newer ones"},
		{"m, enter", "in the history: mark a version, compare another with it"},
		{"L", "log and stderr of a server"},
		{"r", "reconnect the server"},
		{"p", "pause the feed"},
		{"y", "copy the URI of the selected resource"},
		{"ctrl+c", "quit"},
	} {
		lines = append(lines, "  "+m.styles.bold.Render(pad(k[0], 18))+k[1])
	}
	return append(lines, "", "  Any key closes this help.")
}
