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
// Memory: the newest 2,000 events, for each server the updates of the last two minutes
// and its log (see output/serverlog), and without a serve-sse up to 32 MiB of texts.
//
// Libraries: bubbletea v2 (MIT) reads keys, draws changed cells only and restores the
// terminal; lipgloss (MIT) makes styles; charmbracelet/x/ansi measures and cuts text of
// any width. Nothing else imports them.
package tui

import (
	"context"
	"errors"
	"io"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/output/serverlog"
)

// Server is one row of the first page.
type Server struct {
	ID, Error, Protocol string
	State               event.State
	Since               time.Time
	Resources, Tools    int
	Prompts             int
}

// Detail is what a server offers.
type Detail struct {
	Resources      []Resource
	Tools, Prompts []Item
	// Timeline are the events about the server itself, oldest first.
	Timeline []*event.Event
}

// Resource is a followed resource.
type Resource struct {
	URI, MimeType string
	Size          int64
	Changed       time.Time // zero: it has not changed since the start
	Gone          bool
}

// Item is a tool or a prompt.
type Item struct{ Name, Description string }

// Source provides the data. Its methods are called from several goroutines; those with a
// context may wait for a server.
type Source interface {
	// Servers returns the servers, sorted by ID. A non-nil error says why they are not current.
	Servers() ([]Server, error)
	// Events returns the events since the last call, oldest first.
	Events() []*event.Event
	Detail(ctx context.Context, server string) (Detail, error)
	// Versions returns the versions of a resource, oldest first.
	Versions(ctx context.Context, server, uri string) ([]history.Version, error)
	// Text returns the text of the version with the digest, or the current text for the zero
	// digest.
	Text(ctx context.Context, server, uri string, digest catalog.Digest) (string, error)
	// Log returns the newest log lines about a server, oldest first.
	Log(ctx context.Context, server string) ([]serverlog.Line, error)
	// Reconnect ends the connection to a server and makes a new one.
	Reconnect(ctx context.Context, server string) error
}

// ErrUnsupported is the error for something that a source cannot do.
var ErrUnsupported = errors.New("not available for a remote serve-sse")

// Options configure Run.
type Options struct {
	Source Source
	Title  string // what is shown: a file or a URL
	Colour bool
	// Env are the variables that describe the terminal, such as TERM=xterm-256color.
	Env []string
}

// Run shows the screen until the user quits or ctx ends; both return nil.
func Run(ctx context.Context, in io.Reader, out io.Writer, o Options) error {
	profile := colorprofile.ANSI256
	if !o.Colour {
		profile = colorprofile.ASCII
	}
	p := tea.NewProgram(newModel(ctx, o), tea.WithContext(ctx), tea.WithInput(in), tea.WithOutput(out), tea.WithEnvironment(o.Env),
		tea.WithColorProfile(profile), tea.WithoutSignalHandler(), tea.WithFPS(30))
	_, err := p.Run()
	if ctx.Err() != nil || errors.Is(err, tea.ErrInterrupted) {
		return nil
	}
	return err
}
