package tui

import (
	"fmt"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// styles are the colours. Without colours, selection and failure are still visible in the text.
type styles struct {
	bold, dim, good, bad, busy, selected, title lipgloss.Style
}

func newStyles(colour bool) styles {
	plain := lipgloss.NewStyle()
	if !colour {
		return styles{plain, plain, plain, plain, plain, plain, plain}
	}
	return styles{
		bold: plain.Bold(true), dim: plain.Faint(true), good: plain.Foreground(lipgloss.Color("2")), bad: plain.Foreground(lipgloss.Color("1")),
		busy: plain.Foreground(lipgloss.Color("3")), selected: plain.Reverse(true), title: plain.Bold(true).Foreground(lipgloss.Color("6")),
	}
}

// line converts untrusted text to one printable line.
func line(s string) string { return printable.Line(s, 2000) }

// cut truncates a line to a width in columns.
func cut(s string, width int) string { return ansi.Truncate(s, width, "…") }

// pad pads or truncates a text to exactly width columns.
func pad(s string, width int) string {
	s = cut(s, width)
	return s + strings.Repeat(" ", max(0, width-ansi.StringWidth(s)))
}

// middle shortens a URI to width by removing its middle, which is the least informative part.
func middle(s string, width int) string {
	w := ansi.StringWidth(s)
	if w <= width || width < 5 {
		return pad(s, width)
	}
	left := (width - 1) / 2
	return pad(ansi.Truncate(s, left, "")+"…"+ansi.TruncateLeft(s, w-(width-1-left), ""), width)
}

// rank orders servers by state: those that need attention come first.
func rank(s event.State) int {
	switch s {
	case event.Backoff, event.NeedsAuth, event.Unconfigured, event.Unapproved, event.Unsupported:
		return 0
	case event.Pending, event.Connecting, event.Stopping:
		return 1
	case event.Disabled:
		return 3
	}
	return 2
}

func (s *styles) state(st event.State) lipgloss.Style {
	switch rank(st) {
	case 0:
		return s.bad
	case 1:
		return s.busy
	case 3:
		return s.dim
	}
	return s.good
}

// since returns the age of t in one unit: 5s, 3m, 2h, 4d.
func since(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	d := max(0, now.Sub(t))
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", d/time.Hour)
	}
	return fmt.Sprintf("%dd", d/(24*time.Hour))
}

// sparkline draws the counts as bars, scaled to the largest.
func sparkline(counts []int) string {
	most := 0
	for _, n := range counts {
		most = max(most, n)
	}
	var b strings.Builder
	for _, n := range counts {
		switch {
		case n == 0:
			b.WriteRune('·')
		default:
			b.WriteRune([]rune("▁▂▃▄▅▆▇█")[(n*8-1)/most])
		}
	}
	return b.String()
}

// header returns the first line of the screen.
func (m *model) header() string {
	var where strings.Builder
	for _, p := range m.pages[1:] {
		where.WriteString(" › " + p.title())
	}
	failing := 0
	for _, s := range m.servers {
		if rank(s.State) == 0 {
			failing++
		}
	}
	text := fmt.Sprintf("mcptrack  %s  %d server", line(m.opts.Title), len(m.servers))
	if len(m.servers) != 1 {
		text += "s"
	}
	if failing > 0 {
		text += fmt.Sprintf(", %d failing", failing)
	}
	text = m.styles.title.Render(text) + where.String()
	if m.stale != nil {
		text += "  " + m.styles.bad.Render("offline: "+line(m.stale.Error()))
	}
	return text
}

// footer returns the last line of the screen.
func (m *model) footer() string {
	switch {
	case m.typing:
		return "/" + m.filter + "▏"
	case m.notice != "":
		return m.notice
	}
	text := "enter open  / filter  d diff  L log  r reconnect  p pause  ? help  q back"
	if m.filter != "" {
		text = "filter: " + m.filter + "  (esc clears it)  " + text
	}
	if m.paused {
		text = "PAUSED  " + text
	}
	return m.styles.dim.Render(text)
}

// cutAt returns the beginning of a text that fits into width, ending at a space if possible.
func cutAt(s string, width int) string {
	first := ansi.Truncate(s, max(width, 1), "")
	if len(first) == len(s) || first == "" {
		return s
	}
	if i := strings.LastIndexByte(first, ' '); i > len(first)/2 {
		return first[:i]
	}
	return first
}

// list is a cursor in a list of rows, some of which are visible.
type list struct {
	cursor, top int
}

// move handles the keys of a list of n rows and reports whether key is one of them.
func (l *list) move(key string, n, height int) bool {
	switch key {
	case "up", "k":
		l.cursor--
	case "down", "j":
		l.cursor++
	case "pgup", "ctrl+b":
		l.cursor -= height
	case "pgdown", "ctrl+f", "space":
		l.cursor += height
	case "g", "home":
		l.cursor = 0
	case "G", "end":
		l.cursor = n - 1
	default:
		return false
	}
	l.clamp(n)
	return true
}

func (l *list) clamp(n int) { l.cursor = max(0, min(l.cursor, n-1)) }

// window returns the range of rows to show, which includes the cursor.
func (l *list) window(n, height int) (from, to int) {
	l.clamp(n)
	height = max(height, 1)
	l.top = max(0, min(l.top, n-height, l.cursor))
	if l.cursor >= l.top+height {
		l.top = l.cursor - height + 1
	}
	return l.top, min(n, l.top+height)
}

// scroller shows lines of text without a cursor.
type scroller struct {
	top  int
	tail bool // show the last line as lines are added, until the user scrolls up
	away bool // the user has scrolled up
}

func (s *scroller) move(key string, n, height int) bool {
	if s.tail && !s.away {
		s.top = max(0, n-height)
	}
	l := list{cursor: s.top}
	if key == "G" || key == "end" {
		l.cursor = n - height
	} else if !l.move(key, n, height) {
		return false
	}
	s.top = max(0, min(l.cursor, n-height))
	s.away = s.top < n-height
	return true
}

func (s *scroller) window(lines []string, height int) []string {
	if s.tail && !s.away {
		s.top = len(lines)
	}
	s.top = max(0, min(s.top, len(lines)-height))
	return lines[s.top:min(len(lines), s.top+max(height, 0))]
}

// fits reports whether one of the texts contains the filter, ignoring case.
func fits(filter string, texts ...string) bool {
	if filter == "" {
		return true
	}
	filter = strings.ToLower(filter)
	for _, t := range texts {
		if strings.Contains(strings.ToLower(t), filter) {
			return true
		}
	}
	return false
}
