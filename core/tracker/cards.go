package tracker

import (
	"context"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/servercard"
)

const (
	// cardInterval is how often the card of a connected server is requested again, ± 20 %. Hosts allow
	// clients to keep cards for an hour.
	cardInterval = time.Hour
	// cardsApart is the minimum time between two requests, however often the server is connected.
	cardsApart = 10 * time.Minute
	// cardTimeout limits the time to request a card.
	cardTimeout = 30 * time.Second
)

// FetchCard requests the server card of an endpoint and returns it, or a zero value if there is none;
// last is what it returned before. An error means that the card is unknown. See [servercard.Fetch].
type FetchCard func(ctx context.Context, endpoint string, last servercard.Seen) (servercard.Seen, error)

// cardWatch is what a worker knows of its server's card. It is kept from session to session.
type cardWatch struct {
	seen  servercard.Seen
	known bool      // seen is the result of a request
	asked time.Time // when the last request began
	next  time.Time // when the next request is due; zero: not in this session
}

// cardResult is the result of a request for a card.
type cardResult struct {
	seen servercard.Seen
	err  error
}

// cardEndpoint returns the URL of the server whose card is followed, or "" if none is: for a server that
// does not use HTTP, and one whose URL contains a credential, which a request for a public document must
// not contain.
func (w *worker) cardEndpoint() string {
	endpoint := w.srv.URL.Reveal()
	if w.opts.Card == nil || w.srv.Transport != config.TransportHTTP && w.srv.Transport != config.TransportSSE || len(credential.FindURL(endpoint)) > 0 {
		return ""
	}
	return endpoint
}

// startCards schedules the first request of a session.
func (f *sessionFollower) startCards(now time.Time) {
	f.w.card.next = time.Time{}
	if f.w.cardEndpoint() != "" {
		f.w.card.next = now
		if again := f.w.card.asked.Add(cardsApart); !f.w.card.asked.IsZero() && again.After(now) {
			f.w.card.next = again
		}
	}
}

// dueCard requests the card of the server if that is due. At most one request runs at a time, because
// none is scheduled until its result has arrived.
func (f *sessionFollower) dueCard(now time.Time) {
	card := &f.w.card
	if !f.ready || card.next.IsZero() || now.Before(card.next) {
		return
	}
	card.asked, card.next = now, time.Time{}
	endpoint, last := f.w.cardEndpoint(), card.seen
	f.jobs.start(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, cardTimeout)
		defer cancel()
		seen, err := f.w.opts.Card(ctx, endpoint, last)
		f.cards <- cardResult{seen, err}
	})
}

// cardFetched publishes how the card differs from the last one that was seen, by this tracker or, according
// to the durable log, by an earlier one. A server without a card is
// asked again only in the next session.
func (f *sessionFollower) cardFetched(r cardResult) {
	card := &f.w.card
	before, known := card.seen, card.known
	if r.err != nil {
		f.w.log.Debug("the server card is not known", "err", errorLine(r.err))
	} else {
		card.seen, card.known = r.seen, true
	}
	if card.seen.Card != nil {
		card.next = time.Now().Add(backoff.Spread(cardInterval))
	}
	if r.err != nil {
		return
	}
	stored, listed := f.w.t.store.stored(f.w.id, journal.Card)
	_, endpoint := catalog.Text(f.w.cardEndpoint())
	key := endpoint.String()
	if was, same := stored.Get(key); listed && !known && (same || len(stored) == 0) {
		before, known = servercard.Seen{Digest: was.Digest}, true
	}
	if known && before.Digest != r.seen.Digest {
		f.w.t.store.publish(event.Event{ServerID: f.w.id, Payload: cardChange(before, r.seen)})
	} else if known {
		return
	}
	list := catalog.List{}
	if !r.seen.Digest.IsZero() {
		list = catalog.List{{Key: key, Digest: r.seen.Digest}}
	}
	f.w.t.store.rememberList(f.w.id, journal.Card, list)
}

// cardChange describes how a card changed. One of them may have no card.
func cardChange(before, now servercard.Seen) event.CardChanged {
	p := event.CardChanged{URL: printable.Line(now.URL, 200), Digest: now.Digest, PreviousDigest: before.Digest}
	if now.Card == nil {
		p.URL = printable.Line(before.URL, 200)
	}
	remotes := func(c *servercard.Card) (urls []string) {
		for _, r := range c.Remotes {
			urls = append(urls, printable.Line(r.URL, 200))
		}
		return urls
	}
	if c := before.Card; c != nil {
		p.PreviousVersion, p.PreviousTitle, p.PreviousRemotes = printable.Line(c.Version, 100), printable.Line(c.Title, 100), remotes(c)
	}
	if c := now.Card; c != nil {
		p.Version, p.Title, p.Remotes = printable.Line(c.Version, 100), printable.Line(c.Title, 100), remotes(c)
	}
	if before.Card != nil && now.Card != nil {
		p.Fields = now.Card.Differs(before.Card)
	}
	if slices.Equal(p.Remotes, p.PreviousRemotes) {
		p.PreviousRemotes = nil
	}
	return p
}
