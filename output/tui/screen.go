package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/termtext"
)

// styles are the colours. Without colours, selection and failure are still visible in the text.
type styles struct {
	bold, dim, good, bad, selected, title termtext.Colour
}

func newStyles(colour bool) styles {
	if !colour {
		return styles{}
	}
	return styles{bold: termtext.Bold, dim: "2", good: termtext.Green, bad: termtext.Red, selected: "7", title: "1;36"}
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
func middle(s string, width int) string { return termtext.Pad(termtext.Middle(s, width), width) }

// rank orders servers by state: those that need attention come first.
func rank(s event.State) int {
	switch _, tone := s.Said(""); tone {
	case event.ToneBad:
		return 0
	case event.ToneAccent:
		return 1
	case event.ToneQuiet:
		return 3
	}
	return 2
}

func (s *styles) state(of ServerRow) termtext.Colour {
	_, tone := of.State.Said(of.Reason)
	if s.bold == "" {
		return ""
	}
	return termtext.Toned(tone)
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

// sparkline draws the counts as bars. most is the count with the highest bar.
func sparkline(counts []int, most int) string {
	var b strings.Builder
	for _, n := range counts {
		switch {
		case n == 0:
			b.WriteRune('·')
		default:
			b.WriteRune([]rune("▁▂▃▄▅▆▇█")[(min(n, most)*8-1)/most])
		}
	}
	return b.String()
}

// position returns the position of the cursor in a list of n rows.
func position(cursor, n int) string {
	if n == 0 {
		return "0/0"
	}
	return fmt.Sprintf("%d/%d", cursor+1, n)
}

// spread returns a line with left at its beginning and right at its end. left is cut if there is
// not enough space.
func (m *model) spread(left, right string) string {
	if right == "" || m.width < 2*ansi.StringWidth(right) {
		return cut(left, m.width)
	}
	room := m.width - ansi.StringWidth(right) - 1
	left = cut(left, room)
	return left + strings.Repeat(" ", room-ansi.StringWidth(left)+1) + right
}

// heading returns the line above a list.
func (m *model) heading(text, position string) string {
	return m.styles.dim.Paint(m.spread(text, position))
}

// marked returns a row of a list, with a marker if it is selected.
func (m *model) marked(text string, selected bool) string {
	if selected {
		return m.styles.selected.Paint(pad("▸"+ansi.Strip(text), m.width))
	}
	return " " + text
}

// header returns the first line of the screen: where the user is, and the state of the servers.
// On a narrow screen, the least important numbers are omitted, and the beginning of where the user is.
func (m *model) header() string {
	where := []string{"mcptrack", line(m.opts.Title)}
	for _, p := range m.pages[1:] {
		where = append(where, p.title())
	}
	ready, failing, total := 0, 0, 0
	for _, s := range m.servers {
		if s.State == event.Ready {
			ready++
		}
		if rank(s.State) == 0 {
			failing++
		}
		if s.State != event.Disabled {
			total++
		}
	}
	parts := []string{fmt.Sprintf("%.1f events/s", m.feed.perSecond(m.now)), fmt.Sprintf("%d of %d ready", ready, total)}
	if failing > 0 {
		parts = append(parts, fmt.Sprintf("%d failing", failing))
	}
	if m.stale != nil {
		parts = []string{"offline: " + line(m.stale.Error())}
	}
	parts = append(parts, m.now.Local().Format("15:04:05"))
	room := min(ansi.StringWidth(where[len(where)-1]), m.width*2/5)
	for len(parts) > 1 && ansi.StringWidth(strings.Join(parts, "  "))+2+room > m.width {
		if m.stale != nil {
			parts[0] = cut(parts[0], max(10, m.width-room-12))
			break
		}
		parts = parts[1:]
	}
	right := strings.Join(parts, "  ")
	room = m.width - ansi.StringWidth(right) - 2
	left := strings.Join(where, " › ")
	for ansi.StringWidth(left) > room {
		i := max(0, strings.IndexAny(left, "/›"))
		rest := strings.TrimLeft(left[i:], "/› ")
		if i == 0 || rest == "" {
			break
		}
		left = rest
	}
	left = termtext.Middle(left, room)
	style := m.styles.bold
	if failing > 0 || m.stale != nil {
		style = m.styles.bad
	}
	gap := max(1, m.width-ansi.StringWidth(left)-ansi.StringWidth(right))
	return m.styles.title.Paint(left) + strings.Repeat(" ", gap) + style.Paint(right)
}

// footer returns the last line of the screen: the keys of the page, as many as fit.
func (m *model) footer() string {
	switch {
	case m.typing:
		return "/" + m.filter + "▏"
	case m.notice != "":
		return m.notice
	}
	last := "? help  q back"
	if len(m.pages) == 1 {
		last = "? help  q quit"
	}
	text := ""
	if m.paused {
		text = "PAUSED  "
	}
	if m.filter != "" {
		text += "filter: " + m.filter + "  (esc clears it)  "
	}
	for _, key := range m.top().keys(m) {
		if ansi.StringWidth(text+key+"  "+last) > m.width {
			break
		}
		text += key + "  "
	}
	return m.styles.dim.Paint(text + last)
}

func (m *model) pauseWord() string {
	if m.paused {
		return "continue"
	}
	return "pause"
}

// list is a cursor in a list of rows, some of which are visible.
type list struct {
	cursor, top, height int
	key                 string // key of the selected row; empty if the user has not moved
	tail                bool   // the cursor stays on the last row until the user moves up
	away                bool   // the user has moved up
}

// move handles the keys of a list of n rows and reports whether key is one of them.
func (l *list) move(key string, n int) bool {
	l.place(n)
	switch key {
	case "up", "k":
		l.cursor--
	case "down", "j":
		l.cursor++
	case "pgup", "ctrl+b":
		l.cursor -= l.height
	case "pgdown", "ctrl+f", "space":
		l.cursor += l.height
	case "g", "home":
		l.cursor = 0
	case "G", "end":
		l.cursor = n - 1
	default:
		return false
	}
	l.cursor = max(0, min(l.cursor, n-1))
	l.away = l.cursor < n-1
	return true
}

// place moves the cursor to one of n rows.
func (l *list) place(n int) {
	if l.tail && !l.away {
		l.cursor = n - 1
	}
	l.cursor = max(0, min(l.cursor, n-1))
}

// window returns the range of rows to show, which includes the cursor.
func (l *list) window(n, height int) (from, to int) {
	l.place(n)
	l.height = max(height, 1)
	l.top = max(0, min(l.top, n-l.height, l.cursor), l.cursor-l.height+1)
	return l.top, min(n, l.top+l.height)
}

// follow keeps the cursor on the row with the key of the last move when rows have moved.
func (l *list) follow(keys []string) {
	l.place(len(keys))
	if i := slices.Index(keys, l.key); i >= 0 {
		l.cursor = i
	}
}

// choose moves the cursor in a list of rows with these keys. For another key press than those that move, it
// returns the key of the selected row; empty if there is no row.
func (l *list) choose(key string, keys []string) string {
	if l.follow(keys); len(keys) == 0 {
		return ""
	}
	moved := l.move(key, len(keys))
	if l.key = keys[l.cursor]; moved {
		return ""
	}
	return l.key
}

// textLine is one line of a text before it is wrapped.
type textLine struct {
	text   string // printable, without colours
	style  termtext.Colour
	indent int // of the lines into which it is wrapped, except the first
}

// textView shows a text, wrapped to the width of the screen. Its rows are the lines that can be the first
// visible one.
type textView struct {
	list
	lines   []textLine
	filter  string // selects the lines that contain it
	width   int
	wrapped []string // nil until the text is wrapped
}

func (t *textView) set(lines []textLine) { t.lines, t.wrapped = lines, nil }

func (t *textView) wrap(width int, filter string) {
	if t.wrapped != nil && t.width == width && t.filter == filter {
		return
	}
	t.width, t.filter, t.wrapped = width, filter, []string{}
	for _, l := range t.lines {
		if !fits(filter, l.text) {
			continue
		}
		for _, part := range termtext.Fold(l.text, width, l.indent) {
			t.wrapped = append(t.wrapped, l.style.Paint(part))
		}
	}
}

func (t *textView) rows() int { return max(1, len(t.wrapped)-t.height+1) }

func (t *textView) move(key string) {
	t.wrap(t.width, t.filter)
	t.list.move(key, t.rows())
}

func (t *textView) view(width, height int, filter string) []string {
	t.wrap(width, filter)
	t.height = max(height, 1)
	t.place(t.rows())
	return t.wrapped[t.cursor:min(len(t.wrapped), t.cursor+max(height, 0))]
}

// position returns the number of the last visible line, and of all lines.
func (t *textView) position() string {
	return position(min(t.cursor+t.height, len(t.wrapped))-1, len(t.wrapped))
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
