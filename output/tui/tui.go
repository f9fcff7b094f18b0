// Package tui is the live terminal: servers, resources, versions and the feed on a full
// screen, driven by keys.
//
// Data flows one way: servers and events are requested from a [Source] twice a second, and
// details when a page is opened. Pages hold the data that they show; text of a server reaches
// the terminal only through core/printable.
//
// Ownership: [Run] owns the terminal until it returns and restores it, also after a
// panic. Requests to the source run in goroutines of the library; they end with the
// context of Run.
//
// Keys: the visible page handles its keys and names them in the footer. The mouse wheel moves
// like the arrow keys. Ctrl-Z restores the terminal and suspends the process group.
//
// Memory: the newest 2,000 events without their texts, for each server the updates of the last two minutes
// and its log (see output/serverlog), and without a serve-sse up to 32 MiB of texts.
//
// Libraries: bubbletea v2 (MIT) reads keys, draws changed cells only and restores the
// terminal; charmbracelet/x/ansi measures and cuts coloured text. Nothing else imports them.
package tui

import (
	"context"
	"errors"
	"io"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/mcptrack/mcptrack/core/event"
)

// Options configures Run.
type Options struct {
	Source *Source
	Title  string // the file or URL shown in the heading
	Colour bool
	// Keep selects the events in the feed; nil selects all.
	Keep func(*event.Event) bool
	// Reconnect closes the connection to a server and opens a new one. It is nil if that is not
	// possible.
	Reconnect func(server string)
	// Env has the environment variables that describe the terminal, such as TERM=xterm-256color.
	Env []string
}

// Run shows the screen until the user quits or ctx ends; both return nil.
func Run(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	profile := colorprofile.ANSI256
	if !o.Colour {
		profile = colorprofile.ASCII
	}
	p := tea.NewProgram(newModel(ctx, o), tea.WithInput(in), tea.WithOutput(out), tea.WithEnvironment(o.Env),
		tea.WithColorProfile(profile), tea.WithoutSignalHandler(), tea.WithFPS(30))
	// A program that ends through tea.WithContext does not wait for its reader, and the reader then
	// takes the first key from the next program.
	var quit sync.WaitGroup
	quit.Add(1)
	stop := context.AfterFunc(ctx, func() {
		defer quit.Done()
		p.Quit()
	})
	_, err := p.Run()
	if !stop() {
		quit.Wait()
	}
	if ctx.Err() != nil || errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}

const (
	// refreshEvery is the interval at which the servers and events are requested from the source.
	refreshEvery = 500 * time.Millisecond
	// reloadEvery is the minimum time between two loads of a page.
	reloadEvery = time.Second
)

// page is one page on the stack of pages.
type page interface {
	// title returns the heading of the page.
	title() string
	// open starts loading the data of the page. It is also called to reload.
	open(m *model) tea.Cmd
	// loaded stores the result of a command that open returned.
	loaded(m *model, v any)
	// key handles a key press that the model does not handle.
	key(m *model, key string) tea.Cmd
	// view returns at most height lines.
	view(m *model, height int) []string
	// concerns reports whether an event changes what the page shows.
	concerns(e *event.Event) bool
	// live reports whether the page must be reloaded even without an event.
	live() bool
	// uri returns the resource URI that can be copied; "" if there is none.
	uri(m *model) string
	// keys returns the keys of the page and what they do, the most important first.
	keys(m *model) []string
}

// basePage has the methods of a page that loads nothing.
type basePage struct{}

func (basePage) open(*model) tea.Cmd        { return nil }
func (basePage) loaded(*model, any)         {}
func (basePage) concerns(*event.Event) bool { return false }
func (basePage) live() bool                 { return false }

// model is the state of the program. Only bubbletea's event loop uses it.
type model struct {
	ctx    context.Context // ends requests to the source
	opts   Options
	styles styles
	width  int
	height int
	now    time.Time

	servers []ServerRow
	stale   error // why the list of servers is out of date; nil if it is current
	feed    feed
	pages   []page // a stack; the last one is visible
	old     bool   // an event since the last load changed the data of the visible page
	loaded  time.Time

	// reconnecting has for each server that the user reconnects the row before the request.
	reconnecting map[string]ServerRow

	filter string // applies to the visible lists
	typing bool   // the filter is being typed
	paused bool   // the feed is paused
	notice string // status line, shown until the next key press
}

func newModel(ctx context.Context, o Options) *model {
	m := &model{ctx: ctx, opts: o, styles: newStyles(o.Colour), width: 80, height: 24, now: time.Now(), pages: []page{&serversPage{}}}
	m.feed, m.reconnecting = newFeed(o.Keep), map[string]ServerRow{}
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
	case tea.MouseWheelMsg:
		return m, m.wheel(msg.Button, msg.Y)
	case tea.MouseClickMsg:
		if p, ok := m.top().(*serversPage); ok {
			p.point(m, msg.Y)
		}
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

// refresh gets new data from the source and reports whether the page must be reloaded.
func (m *model) refresh() (reload bool) {
	m.now = time.Now()
	m.servers, m.stale = m.opts.Source.Servers()
	sort.SliceStable(m.servers, func(i, j int) bool { return rank(m.servers[i].State) < rank(m.servers[j].State) })
	m.reconnected()
	events := m.opts.Source.Events()
	m.feed.add(events, m.paused, m.now)
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
	lines = append(lines, m.top().view(m, body)...)
	for len(lines) < m.height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:m.height-1], m.footer())
	for i := range lines {
		lines[i] = cut(lines[i], m.width)
	}
	v := tea.NewView(strings.Join(lines, "\n"))
	v.AltScreen = true
	v.MouseMode = tea.MouseModeCellMotion
	v.WindowTitle = "mcptrack top"
	return v
}

// maxFilter bounds the length of a filter that the user types.
const maxFilter = 100

// key handles a key press. text is the text that the key types.
func (m *model) key(key, text string) tea.Cmd {
	if key == "ctrl+c" {
		return tea.Quit
	}
	if m.typing {
		m.typeFilter(key, text)
		return nil
	}
	switch key {
	case "ctrl+z":
		return tea.Suspend
	case "?":
		if p, ok := m.top().(*textPage); ok && p.name == helpTitle {
			return m.back("q")
		}
		return m.push(&textPage{name: helpTitle, text: textView{lines: helpLines(m)}})
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

// back clears the filter; if there is none, it leaves the page. On the first page, q quits.
func (m *model) back(key string) tea.Cmd {
	switch {
	case m.filter != "" && key != "q":
		m.filter = ""
	case len(m.pages) == 1 && key != "q":
		m.pages[0].(*serversPage).focused = false
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

// wheel moves the cursor, or scrolls the text, under the mouse.
func (m *model) wheel(button tea.MouseButton, y int) tea.Cmd {
	key := map[tea.MouseButton]string{tea.MouseWheelUp: "up", tea.MouseWheelDown: "down"}[button]
	if key == "" || m.typing {
		return nil
	}
	if p, ok := m.top().(*serversPage); ok {
		p.point(m, y)
	}
	for range wheelLines {
		m.top().key(m, key) // moving has no command
	}
	return nil
}

// wheelLines is the number of lines by which one step of the mouse wheel moves.
const wheelLines = 3

// ofServer handles the keys of a server that is selected or shown.
func (m *model) ofServer(key, server string) tea.Cmd {
	switch key {
	case "L":
		return m.push(&serverPage{id: server, tab: tabLog, text: textView{list: list{tail: true}}, calls: callsPage{server: server}})
	case "e":
		return m.push(newFeedPage(server))
	case "r":
		m.reconnect(server)
	}
	return nil
}

// tabOf returns the tab that a key selects on a page with n tabs.
func tabOf(key string, now, n int) (tab int, ok bool) {
	switch {
	case key == "tab":
		return (now + 1) % n, true
	case key == "shift+tab":
		return (now + n - 1) % n, true
	case len(key) == 1 && '1' <= key[0] && int(key[0]-'1') < n:
		return int(key[0] - '1'), true
	}
	return 0, false
}

// reconnect starts reconnecting a server.
func (m *model) reconnect(server string) {
	i := slices.IndexFunc(m.servers, func(s ServerRow) bool { return s.ID == server })
	switch {
	case m.opts.Reconnect == nil:
		m.notice = "only the process that is connected to the server can reconnect it"
	case i >= 0:
		m.notice = "reconnecting " + line(server) + "…"
		m.reconnecting[server] = m.servers[i]
		m.opts.Reconnect(server)
	}
}

// reconnected reports the outcome for servers that the user has reconnected.
func (m *model) reconnected() {
	for id, before := range m.reconnecting {
		i := slices.IndexFunc(m.servers, func(s ServerRow) bool { return s.ID == id })
		switch {
		case i < 0:
			delete(m.reconnecting, id)
		case m.servers[i].Since.Equal(before.Since) || rank(m.servers[i].State) == 1:
			continue
		case m.servers[i].State == event.Ready:
			delete(m.reconnecting, id)
			m.notice = line(id) + " is ready again"
		default:
			delete(m.reconnecting, id)
			m.notice = line(id) + ": " + m.stateOf(m.servers[i]) + ": " + line(m.servers[i].Error)
		}
	}
}

// stateOf returns the state of a server in words.
func (m *model) stateOf(s ServerRow) string {
	if _, ok := m.reconnecting[s.ID]; ok {
		return "reconnecting"
	}
	words, _ := s.State.Said(s.Reason)
	return line(words)
}

// isOpen reports whether a key opens what is selected.
func isOpen(key string) bool { return key == "enter" || key == "right" || key == "l" }

// sort says how a list is sorted from now on, and returns whether it is by last change.
func (m *model) sort(byChange bool, before string) bool {
	m.notice = "sorted by " + map[bool]string{false: "last change", true: before}[byChange]
	return !byChange
}

const helpTitle = "help"

func helpLines(m *model) (lines []textLine) {
	for _, k := range [][2]string{
		{"up/down, k/j, wheel", "move or scroll; PgUp, PgDn: by a page; g, G: start, end"},
		{"enter, right, l", "open the server, resource, tool, prompt, event or call"},
		{"q, esc, left, h", "back; q on the first page quits"},
		{"tab", "first page: move between servers and events"},
		{"tab, 1-7", "other pages: switch between the tabs; tab leaves out empty lists"},
		{"c", "calls of tools: of all servers, or on its page of one"},
		{"e", "show the events alone; q returns"},
		{"s", "sort by last change, or as before"},
		{"/", "filter the list; esc clears the filter"},
		{"d, < and >", "differences of a resource; of older, newer versions"},
		{"m, enter", "in the history: mark a version, compare another with it"},
		{"L", "log and stderr of a server"},
		{"r", "reconnect the server (not with --url or over a daemon)"},
		{"p", "pause the events"},
		{"y", "copy the URI of the selected resource"},
		{"ctrl+z, ctrl+c", "suspend (fg continues); quit"},
		{"shift + mouse", "select text, in most terminals"},
	} {
		lines = append(lines, textLine{text: " " + pad(k[0], 21) + k[1], indent: 22})
	}
	return lines
}
