package tui

import (
	"context"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/mcptrack/mcptrack/core/event"
)

const (
	// refreshEvery is how often servers and events are requested from the source.
	refreshEvery = 500 * time.Millisecond
	// reloadEvery is the least time between two loads of a page.
	reloadEvery = time.Second
)

// page is one of the pages, which form a stack.
type page interface {
	// title returns the heading of the page.
	title() string
	// open starts to load the data of the page; it is called again to reload.
	open(m *model) tea.Cmd
	// loaded stores the result of a command of open.
	loaded(m *model, v any)
	// key handles a key that the model does not handle itself.
	key(m *model, key string) tea.Cmd
	// view returns at most height lines.
	view(m *model, height int) []string
	// concerns reports whether an event changes what the page shows.
	concerns(e *event.Event) bool
	// live reports whether the page must be reloaded even without an event.
	live() bool
	// uri returns the resource URI that can be copied; "" if there is none.
	uri(m *model) string
}

// model is the state of the program. Only the event loop of bubbletea uses it.
type model struct {
	ctx    context.Context // of requests to the source
	opts   Options
	styles styles
	width  int
	height int
	now    time.Time

	servers []Server
	stale   error // why the servers are not current; nil: they are
	feed    feed
	pages   []page // a stack; the last one is visible
	old     bool   // an event has changed what the visible page shows since it was loaded
	loaded  time.Time
	help    bool

	filter string // of the visible lists
	typing bool   // the filter is being typed
	paused bool   // the feed is paused
	notice string // one line at the bottom, until the next key
}

func newModel(ctx context.Context, o Options) *model {
	m := &model{ctx: ctx, opts: o, styles: newStyles(o.Colour), width: 80, height: 24, now: time.Now(), pages: []page{&serversPage{}}}
	m.feed.colour = o.Colour
	m.refresh()
	return m
}

type (
	tick time.Time
	// answer is the result of a request to the source.
	answer struct {
		page  page
		value any
		err   error
	}
	done struct{ notice string }
)

func nextTick() tea.Cmd { return tea.Tick(refreshEvery, func(t time.Time) tea.Msg { return tick(t) }) }

// Init implements the library's Model.
func (m *model) Init() tea.Cmd { return nextTick() }

// requestTime bounds one request to the source.
const requestTime = 20 * time.Second

// ask runs a request for a page.
func (m *model) ask(p page, request func(context.Context) (any, error)) tea.Cmd {
	return func() tea.Msg {
		ctx, cancel := context.WithTimeout(m.ctx, requestTime)
		defer cancel()
		v, err := request(ctx)
		return answer{p, v, err}
	}
}

// Update implements the library's Model.
func (m *model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tick:
		if m.refresh() {
			return m, tea.Batch(nextTick(), m.top().open(m))
		}
		return m, nextTick()
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 20), max(msg.Height, 6)
	case answer:
		if msg.err != nil {
			m.notice = line(msg.err.Error())
		} else if slices.Contains(m.pages, msg.page) {
			msg.page.loaded(m, msg.value)
		}
	case done:
		m.notice = msg.notice
	case tea.PasteMsg:
		if m.typing {
			m.filter += line(msg.Content)
		}
	case tea.KeyPressMsg:
		m.notice = ""
		return m, m.key(msg.String(), msg.Text)
	}
	return m, nil
}

// refresh gets new data from the source, and reports whether the page has to be reloaded.
func (m *model) refresh() (reload bool) {
	m.now = time.Now()
	m.servers, m.stale = m.opts.Source.Servers()
	slices.SortStableFunc(m.servers, func(a, b Server) int { return rank(a.State) - rank(b.State) })
	events := m.opts.Source.Events()
	m.feed.add(events, m.paused)
	m.feed.age(m.now)
	m.old = m.old || m.top().live() || slices.ContainsFunc(events, m.top().concerns)
	if m.paused || !m.old || m.now.Sub(m.loaded) < reloadEvery {
		return false
	}
	m.old, m.loaded = false, m.now
	return true
}

func (m *model) top() page { return m.pages[len(m.pages)-1] }

// push shows a page above the others.
func (m *model) push(p page) tea.Cmd {
	m.pages = append(m.pages, p)
	m.filter = ""
	return p.open(m)
}

// View implements the library's Model.
func (m *model) View() tea.View {
	body := m.height - 2
	lines := []string{m.header()}
	if m.help {
		lines = append(lines, helpLines(m)...)
	} else {
		lines = append(lines, m.top().view(m, body)...)
	}
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:m.height-1], m.footer())
	for i := range lines {
		lines[i] = cut(lines[i], m.width)
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	v.WindowTitle = "mcptrack top"
	return v
}
