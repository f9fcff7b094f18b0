package feed

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/printable"
)

// query is a client's request: a filter and a start position. The stream starts with the next event
// unless id, at, seq or earliest is set.
type query struct {
	filter    filter
	id        string    // start after the event with this unvalidated ID
	at        time.Time // start with the first event stored at or after this time
	seq       *uint64   // start after the event with this number
	earliest  bool      // start with the oldest event
	described bool      // events have a description; see [event.Described]
}

func parseQuery(r *http.Request, feed bool) (query, error) {
	v, malformed := url.ParseQuery(r.URL.RawQuery)
	q := query{id: r.Header.Get("Last-Event-ID")}
	if q.id == "" {
		q.id = v.Get("lastEventId")
	}
	var err error
	if !feed {
		if malformed != nil {
			return query{}, errors.New("the query is malformed")
		}
		for name := range v {
			if !slices.Contains(parameters(), name) {
				return query{}, fmt.Errorf("unknown parameter %q; expected %s", printable.Line(name, 64), strings.Join(parameters(), ", "))
			}
		}
		if q.filter, err = parseFilter(v); err != nil {
			return query{}, err
		}
	}
	q.described = v.Has("described") && !feed
	if since := v.Get("since"); since != "" && q.id == "" {
		err = q.since(since)
	}
	return q, err
}

// parameters returns the names of the query parameters of /events.
func parameters() []string {
	return []string{"server", "type", "uri", "since", "lastEventId", "described"}
}

// since parses the parameter "since". An invalid value is an error, because a user typed it; a
// Last-Event-ID, in contrast, may come from another log.
func (q *query) since(s string) error {
	switch s {
	case "earliest":
		q.earliest = true
		return nil
	case "latest":
		return nil
	}
	if _, _, err := event.ParseID(s); err == nil {
		q.id = s
		return nil
	}
	if n, err := strconv.ParseUint(s, 10, 64); err == nil {
		q.seq = &n
		return nil
	}
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		q.at = t
		return nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		q.at = time.Now().Add(-d)
		return nil
	}
	return fmt.Errorf("invalid since=%q; expected an id, a number, an RFC 3339 time, a duration, earliest or latest", printable.Line(s, 64))
}

// place returns the number of the client's first entry, and the gap to report first if requested
// entries have expired.
func (c *streamClient) place(ctx context.Context) (next uint64, gap *event.Gap, err error) {
	log, q := c.hub.opts.Log, c.query
	switch {
	case q.earliest:
		b, err := log.Bounds(ctx)
		return b.First, nil, err
	case !q.at.IsZero():
		next, err = log.Since(ctx, q.at)
		return next, nil, err
	case q.seq != nil:
		q.id = event.FormatID(c.ring.epoch, *q.seq)
	case q.id == "":
		next, _ = c.ring.position()
		return next, nil, nil
	}
	// Most clients reconnect soon, while the ring still contains their next entries.
	if epoch, seq, err := event.ParseID(q.id); err == nil && epoch == c.ring.epoch && c.ring.reach(seq+1) {
		return seq + 1, nil, nil
	}
	r, err := log.Resume(ctx, q.id)
	return r.From, r.Gap, err
}

// maxGlobs limits the number of globs in a query, because every event may be matched against all of
// them.
const maxGlobs = 32

// filter selects the events for a client. An event must match at least one glob in each non-empty
// list. Gaps pass every filter.
type filter struct{ types, servers, uris []*glob.Matcher }

func parseFilter(q url.Values) (filter, error) {
	types, servers, uris := split(q["type"]), split(q["server"]), q["uri"]
	if n := len(types) + len(servers) + len(uris); n > maxGlobs {
		return filter{}, fmt.Errorf("the query has %d globs; at most %d are allowed", n, maxGlobs)
	}
	var f filter
	for into, globs := range map[*[]*glob.Matcher][]string{&f.types: types, &f.servers: servers, &f.uris: uris} {
		for _, g := range globs {
			if !glob.Valid(g) {
				return filter{}, fmt.Errorf("invalid glob %q", printable.Line(g, 64))
			}
			*into = append(*into, glob.NewMatcher(g))
		}
	}
	for i, g := range f.types {
		if !slices.ContainsFunc(event.Types(), func(t event.Type) bool { return g.Is(string(t)) || g.Match(string(t)) }) {
			return filter{}, fmt.Errorf("unknown event type %q", printable.Line(types[i], 64))
		}
	}
	return f, nil
}

// split splits parameter values at commas. It must not be used for ?uri=, because URIs may contain
// commas; that parameter is repeated instead.
func split(values []string) []string {
	var out []string
	for _, v := range values {
		for part := range strings.SplitSeq(v, ",") {
			out = append(out, strings.TrimSpace(part))
		}
	}
	return out
}

func (f *filter) none() bool { return len(f.types)+len(f.servers)+len(f.uris) == 0 }

func (f *filter) passes(fr *frame) bool {
	if fr.kind == event.TypeGap || f.none() {
		return true
	}
	return matchAny(f.types, string(fr.kind)) && matchAny(f.servers, fr.server) && matchAny(f.uris, fr.uri)
}

func matchAny(globs []*glob.Matcher, s string) bool {
	return len(globs) == 0 || slices.ContainsFunc(globs, func(g *glob.Matcher) bool { return g.Is(s) || s != "" && g.Match(s) })
}
