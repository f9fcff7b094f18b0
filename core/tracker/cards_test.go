package tracker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/servercard"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// cardHost answers requests for cards, and records them.
type cardHost struct {
	mu    sync.Mutex // guards the fields below
	card  *servercard.Card
	err   error
	asked []string // endpoints
}

func (h *cardHost) fetch(_ context.Context, endpoint string, last servercard.Seen) (servercard.Seen, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = append(h.asked, endpoint)
	if h.err != nil || h.card == nil {
		return servercard.Seen{}, h.err
	}
	text, err := json.Marshal(h.card)
	if err != nil {
		return last, err
	}
	digest, err := catalog.Fingerprint(text)
	return servercard.Seen{Card: h.card, URL: endpoint + "/server-card", Digest: digest}, err
}

func (h *cardHost) set(c *servercard.Card, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.card, h.err = c, err
}

// requests returns the number of requests since it was called last.
func (h *cardHost) requests() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := len(h.asked)
	h.asked = nil
	return n
}

func atURL(url string) func(*config.Server) {
	return func(s *config.Server) { s.Transport, s.URL = config.TransportHTTP, config.NewSecret(url) }
}

func docsCard(version string, remotes ...string) *servercard.Card {
	c := &servercard.Card{Name: "x/docs", Title: "Docs\x1b[31m", Version: version}
	for _, u := range remotes {
		c.Remotes = append(c.Remotes, servercard.Remote{Type: servercard.SSE, URL: u})
	}
	return c
}

// The card of a server is requested when it connects and about every hour; only changes are published.
func TestCards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &cardHost{card: docsCard("1", "https://docs.example/mcp")}
		w := newWorld(t, Options{Card: h.fetch, Liveness: 24 * time.Hour, Resync: 24 * time.Hour})
		w.Serve("docs", session.EraModern)
		w.start(sessiontest.Entry("docs", atURL("https://docs.example/mcp")))
		want := func(what string, requests int, changes ...string) {
			t.Helper()
			if n := h.requests(); n < requests || n > 2*requests {
				t.Errorf("%s: %d requests, want %d or, within 75 minutes, one more", what, n, requests)
			}
			var got []string
			for _, e := range w.published(event.TypeCardChanged) {
				p := e.Payload.(event.CardChanged)
				got = append(got, fmt.Sprintf("%s %v%v", strings.TrimPrefix(e.String(), e.Timestamp.Format(event.TimeFormat)+" "), p.Remotes, p.PreviousRemotes))
			}
			if strings.Join(got, "\n") != strings.Join(changes, "\n") {
				t.Errorf("%s: %q, want %q", what, got, changes)
			}
			w.forget()
		}
		w.pass(time.Minute)
		want("connected", 1)
		w.pass(45 * time.Minute)
		want("later", 0)
		w.pass(30 * time.Minute)
		want("an hour later", 1)

		h.set(docsCard("2", "https://docs.example/mcp", "https://eu.docs.example/mcp"), nil)
		w.pass(75 * time.Minute)
		want("changed", 1, "docs card changed: version 1 to 2, remotes (https://docs.example/mcp/server-card) [https://docs.example/mcp https://eu.docs.example/mcp][https://docs.example/mcp]")
		h.set(nil, errors.New("503"))
		w.pass(75 * time.Minute)
		want("unknown", 1)
		h.set(nil, nil)
		w.pass(75 * time.Minute)
		want("gone", 1, "docs card removed (https://docs.example/mcp/server-card) [][https://docs.example/mcp https://eu.docs.example/mcp]")
		w.pass(5 * time.Hour)
		want("without a card", 0)

		// Connections that follow each other closely cause no requests.
		h.set(docsCard("3"), nil)
		w.SetDown("docs", errors.New("down"))
		w.pass(time.Minute)
		w.SetDown("docs", nil)
		w.pass(time.Minute)
		want("connected again", 1, "docs card added (https://docs.example/mcp/server-card) [][]")
		for range 5 {
			w.SetDown("docs", errors.New("down"))
			w.pass(time.Second)
			w.SetDown("docs", nil)
			w.pass(time.Minute)
		}
		want("restarts", 0)
		w.pass(10 * time.Minute)
		want("after restarts", 1)

		// Another endpoint is another card.
		h.set(docsCard("9"), nil)
		w.apply(sessiontest.Entry("docs", atURL("https://other.example/mcp")))
		w.pass(time.Minute)
		want("another URL", 1)
	})
}

// What changed while no tracker ran is published by the next one, once.
func TestCardsOfAnEarlierTracker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		log := journal.NewMemory(journal.MemoryOptions{})
		defer log.Close()
		h := &cardHost{}
		for _, c := range []struct {
			what, url string
			card      *servercard.Card
			want      []string
		}{
			{"first", "https://docs.example/mcp", nil, nil},
			{"new", "https://docs.example/mcp", docsCard("1"), []string{"card added"}},
			{"the same", "https://docs.example/mcp", docsCard("1"), nil},
			{"changed", "https://docs.example/mcp", docsCard("2"), []string{"card changed"}},
			{"of another server", "https://other.example/mcp", docsCard("3"), nil},
			{"changed again", "https://other.example/mcp", docsCard("4"), []string{"card changed"}},
			{"gone", "https://other.example/mcp", nil, []string{"card removed"}},
			{"still gone", "https://other.example/mcp", nil, nil},
		} {
			h.set(c.card, nil)
			states, err := log.States(t.Context(), "docs")
			if err != nil {
				t.Fatal(err)
			}
			w := newWorld(t, Options{Card: h.fetch, Log: struct{ journal.Recorder }{log}, Stored: journal.States{Lists: states.Lists}})
			w.Serve("docs", session.EraModern)
			w.start(sessiontest.Entry("docs", atURL(c.url)))
			w.pass(time.Minute)
			var got []string
			for _, e := range w.published(event.TypeCardChanged) {
				got = append(got, e.Describe().Verb)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: %q, want %q", c.what, got, c.want)
			}
			w.stop()
		}
	})
}

// No request is made for programs, for URLs with credentials, and unless the tracker follows cards. Texts
// of a card are printable.
func TestNoCards(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := &cardHost{card: docsCard("1")}
		w := newWorld(t, Options{Card: h.fetch, Liveness: 24 * time.Hour, Resync: 24 * time.Hour})
		w.Serve("docs", session.EraModern)
		w.start(sessiontest.Entry("docs"))
		for _, url := range []string{"https://docs.example/mcp?api_key=sk-proj-4f9a1c20b7e4d5814f9a1c20b7e4d581", "https://me:hunter2@docs.example/mcp"} {
			w.pass(2 * time.Hour)
			w.apply(sessiontest.Entry("docs", atURL(url)))
		}
		w.pass(2 * time.Hour)
		if n := h.requests(); n != 0 || w.state("docs") != event.Ready {
			t.Errorf("%d requests, %s", n, w.state("docs"))
		}
	})
	p := cardChange(servercard.Seen{Card: docsCard("1\n2"), Digest: catalog.Digest{1}}, servercard.Seen{Card: docsCard("\u202e", "https://\x1b"), Digest: catalog.Digest{2}})
	if text := fmt.Sprint(p); strings.ContainsAny(text, "\n\x1b\u202e") {
		t.Errorf("%q", text)
	}
}
