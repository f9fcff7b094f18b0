package servercard

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/guarded"
)

// Seen is what the last request for the card of an endpoint found. The zero value is the state before
// the first request, and of an endpoint without a card.
type Seen struct {
	Card   *Card // nil if there is none
	Digest catalog.Digest
	URL    string // of the card, without anything secret
	etag   string
}

// Fetch requests the card of an endpoint: where it was last, or else at the location that MCP reserves
// or, if the card there has this endpoint, at the location of earlier drafts. It sends no credentials: a card is
// public. If the card is the same as last time, it returns last. If the endpoint has no card, it returns
// a zero Seen. It returns an error if that is unknown.
func Fetch(ctx context.Context, endpoint string, last Seen) (Seen, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Hostname() == "" {
		return last, errors.New("the URL of the server is invalid")
	}
	a := Address{URL: &url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}}
	client := guarded.New(ctx, guarded.Options{Server: a.at("").String(), OwnHost: true}).Client()
	own := a.at(strings.TrimSuffix(u.Path, "/") + Suffix)
	places := []*url.URL{own, a.at(CardPath)}
	for _, place := range places {
		if last.URL != "" && guarded.ShowURL(place) != last.URL {
			continue
		}
		p, err := fetch(ctx, client, place, last.etag)
		none, answered := errors.AsType[*answerError](err)
		switch {
		case answered && none.status == http.StatusNotModified && last.Card != nil:
			return last, nil
		case answered && none.absent(last.Card != nil):
			continue
		case err != nil:
			return last, err
		}
		c, err := Parse(p.data)
		switch {
		case err == nil && (place == own || c.has(a.URL)):
		case last.Card != nil:
			return last, errors.New("the document is no longer a card of the server")
		default:
			continue
		}
		text, err := json.Marshal(c)
		if err != nil {
			return last, err
		}
		now := Seen{Card: c, URL: guarded.ShowURL(place), etag: p.etag}
		if now.Digest, err = catalog.Fingerprint(text); err != nil {
			return last, err
		}
		return now, nil
	}
	return Seen{}, nil
}

// has reports whether an endpoint is a remote of the card.
func (c *Card) has(endpoint *url.URL) bool {
	for _, r := range c.Remotes {
		if strings.TrimSuffix(r.URL, "/") == strings.TrimSuffix(endpoint.String(), "/") {
			return true
		}
	}
	return false
}

// absent reports whether an answer means that there is no card. A card that was there is gone only if the
// server says so; a server that never had one may answer anything to an unknown path.
func (e *answerError) absent(had bool) bool {
	if had {
		return e.status == http.StatusNotFound || e.status == http.StatusGone
	}
	return e.status == http.StatusOK || e.status >= 300 && e.status < 500 && e.status != http.StatusTooManyRequests
}
