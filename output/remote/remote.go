// Package remote accesses events and the state of servers wherever they are: [Client] sends requests to
// the JSON API of a running serve-sse over TCP, of the daemon over its socket, or of this process
// ([Local]), and [Client.Follow] reads the events. [Follow] reads any feed of server-sent events.
//
// Requests: a Client has no goroutines, keeps no connection between requests unless Client.HTTP is
// set, and is safe for concurrent use. Responses are limited to 64 MiB and two minutes, and are not trusted.
//
// In this process: the events are read from the log itself, with its guarantees, and not encoded.
//
// Order and loss: Follow delivers events one at a time, in the order of the feed. It does not
// read ahead of a slow consumer; only the connection buffers data. When the connection ends, it
// reconnects with the ID of the last event. The feed itself reports expired events; serve-sse sends
// a gap. An event that is truncated because the connection ends is discarded, as the specification
// requires; after the reconnect, the feed sends it again.
//
// Rate: Follow connects at most once per second. The delay doubles with each attempt that yields no
// event, up to 30 s. The feed can request a longer delay, up to 30 s, with retry: or Retry-After.
// A connection is dropped if the feed sends no line for 45 s; an idle feed sends
// heartbeats.
//
// Memory: Follow buffers one event of at most [MaxEvent] bytes. A larger event ends the connection.
//
// Ownership: Follow closes its connection before it returns.
package remote

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/jsonl"
)

// Limits for a response.
const (
	maxAnswer = 64 << 20        // bytes
	maxTime   = 2 * time.Minute // from the request to the end of the response
)

// MaxVersions limits the number of resource versions in one response.
const MaxVersions = 500

// Client sends requests to one serve-sse process.
type Client struct {
	Base  *url.URL
	Token string // bearer token, or empty; sent only to Base, because redirects are not followed
	// HTTP sends the requests. It must not follow redirects. If it is nil, every request has its own
	// connection.
	HTTP *http.Client

	log journal.Log // of a client from Local
}

// Local returns a client for a log in this process, and for the API that handler serves about it. The
// caller closes the log when no request runs.
func Local(log journal.Log, handler http.Handler) Client {
	return Client{Base: &url.URL{Scheme: "http", Host: "log"}, HTTP: &http.Client{Transport: called{handler}}, log: log}
}

// called is a transport that calls a handler. The response is complete before it is returned.
type called struct{ http.Handler }

func (c called) RoundTrip(q *http.Request) (*http.Response, error) {
	w := &response{status: http.StatusOK, header: http.Header{}}
	c.ServeHTTP(w, q)
	if err := context.Cause(q.Context()); err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: w.status, Status: fmt.Sprint(w.status, " ", http.StatusText(w.status)), Header: w.header, Body: io.NopCloser(&w.body), Request: q}, nil
}

type response struct {
	status int
	header http.Header
	body   bytes.Buffer
}

func (r *response) Header() http.Header         { return r.header }
func (r *response) WriteHeader(status int)      { r.status = status }
func (r *response) Write(p []byte) (int, error) { return r.body.Write(p) }

// RefusedError reports a response after which a retry is pointless: a status that is not 200, or a response
// that serve-sse never sends.
type RefusedError struct {
	Host    string
	Status  int    // 0 if there was no response
	Problem string // begins with a verb; empty if the status is the problem
}

func (e *RefusedError) Error() string {
	return e.Host + " " + cmp.Or(e.Problem, fmt.Sprintf("responded with HTTP status %d %s", e.Status, http.StatusText(e.Status)))
}

// UnreachableError reports a request that received no complete response.
type UnreachableError struct {
	Host  string
	Err   error
	Began bool // whether the response had started
}

func (e *UnreachableError) Error() string {
	if e.Began {
		return "the response from " + e.Host + " is incomplete: " + e.Err.Error()
	}
	return e.Host + " cannot be reached: " + e.Err.Error()
}

func (e *UnreachableError) Unwrap() error { return e.Err }

// Get requests one JSON document and decodes it into the value that into points to. It escapes the
// elements of path.
func (c *Client) Get(ctx context.Context, path []string, query url.Values, into any) error {
	return c.ask(ctx, http.MethodGet, path, query, nil, into)
}

// Post is like Get, for a request that changes something, with the JSON of a value.
func (c *Client) Post(ctx context.Context, path []string, of, into any) error {
	body, err := json.Marshal(of)
	if err != nil {
		return err
	}
	return c.ask(ctx, http.MethodPost, path, nil, body, into)
}

func (c *Client) ask(ctx context.Context, method string, path []string, query url.Values, content []byte, into any) error {
	escaped := make([]string, len(path))
	for i, p := range path {
		escaped[i] = url.PathEscape(p)
	}
	u := c.Base.JoinPath(escaped...)
	u.RawQuery = query.Encode()
	ctx, cancel := context.WithTimeoutCause(ctx, maxTime, fmt.Errorf("it took longer than %s", maxTime))
	defer cancel()
	q, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(content))
	if err != nil {
		return err
	}
	if method == http.MethodPost {
		q.Header.Set("Content-Type", "application/json")
		q.Header.Set("Origin", c.Base.Scheme+"://"+c.Base.Host)
	}
	if c.Token != "" {
		q.Header.Set("Authorization", "Bearer "+c.Token)
	}
	client := c.HTTP
	if client == nil {
		client = &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		defer client.CloseIdleConnections()
	}
	unreachable := func(err error, began bool) error {
		if cause := context.Cause(ctx); cause != nil {
			err = cause
		}
		return &UnreachableError{c.Base.Host, printable.Unnamed(err), began}
	}
	p, err := client.Do(q)
	if err != nil {
		return unreachable(err, false)
	}
	defer func() { _ = p.Body.Close() }()
	if p.StatusCode != http.StatusOK {
		return c.refusal(p)
	}
	body, err := io.ReadAll(io.LimitReader(p.Body, maxAnswer+1))
	switch {
	case err != nil:
		return unreachable(err, true)
	case len(body) > maxAnswer:
		return &RefusedError{c.Base.Host, p.StatusCode, fmt.Sprintf("is not an mcptrack serve-sse: its response is larger than %d MiB", maxAnswer>>20)}
	}
	if err := json.Unmarshal(body, into); err != nil {
		return &RefusedError{c.Base.Host, p.StatusCode, "is not an mcptrack serve-sse (it responded with " + mediaType(p) + ")"}
	}
	return nil
}

// refusal returns the error for a response whose status is not 200. The API of this process says why.
func (c *Client) refusal(p *http.Response) error {
	var why struct{ Error string }
	if c.log != nil && json.NewDecoder(p.Body).Decode(&why) == nil && p.StatusCode >= http.StatusInternalServerError {
		return errors.New(why.Error)
	}
	if p.StatusCode == http.StatusConflict && json.NewDecoder(io.LimitReader(p.Body, maxAnswer)).Decode(&why) == nil && why.Error != "" {
		return &RefusedError{c.Base.Host, p.StatusCode, "refused: " + printable.Line(why.Error, 300)}
	}
	return &RefusedError{Host: c.Base.Host, Status: p.StatusCode}
}

// Servers returns the states of the servers, sorted by id.
func (c *Client) Servers(ctx context.Context) (servers []status.Summary, err error) {
	err = c.Get(ctx, []string{"api", "servers"}, nil, &servers)
	sort.Slice(servers, func(i, j int) bool { return servers[i].ID < servers[j].ID })
	return servers, err
}

// ServerIDs returns the ids of the servers that are followed or that the log has, as far as they are known.
func (c *Client) ServerIDs(ctx context.Context) (ids []string) {
	servers, _ := c.Servers(ctx)
	for _, s := range servers {
		ids = append(ids, s.ID)
	}
	if c.log != nil {
		states, _ := c.log.States(ctx, "")
		for r := range states.Resources {
			ids = append(ids, r.ServerID)
		}
		for l := range states.Lists {
			ids = append(ids, l.ServerID)
		}
	}
	return ids
}

// Standing returns the stored events that tell the current state of a server, oldest first: its newest
// state, what is followed of it, and what differs from the lock.
func (c *Client) Standing(ctx context.Context, server string) (events []journal.Entry, err error) {
	var found []json.RawMessage
	err = c.Get(ctx, []string{"api", "servers", server, "events"}, nil, &found)
	for _, data := range found {
		if e, err := jsonl.Decode(data); err == nil && e != nil {
			events = append(events, journal.Received(e.ID, printable.JSON(data), e))
		}
	}
	return events, err
}

// Calls returns the calls that a query selects; see [calls.Store].
func (c *Client) Calls(ctx context.Context, q calls.Query) ([]calls.Call, error) {
	var found struct {
		Calls []calls.Call `json:"calls"`
	}
	err := c.Get(ctx, []string{"api", "calls"}, q.Values(), &found)
	return found.Calls, err
}

// Versions returns the stored versions of a resource, oldest first.
func (c *Client) Versions(ctx context.Context, server, uri string) ([]history.Version, error) {
	return c.versions(ctx, url.Values{"server": {server}, "uri": {uri}, "versions": {"1"}})
}

// Definitions returns the stored versions of the definition of an item, such as tool/search, oldest
// first.
func (c *Client) Definitions(ctx context.Context, server, item string) ([]history.Version, error) {
	return c.versions(ctx, url.Values{"server": {server}, "item": {item}})
}

func (c *Client) versions(ctx context.Context, query url.Values) ([]history.Version, error) {
	var found struct {
		Versions []history.Version `json:"versions"` // newest first
	}
	query.Set("limit", strconv.Itoa(MaxVersions))
	if err := c.Get(ctx, []string{"api", "history"}, query, &found); err != nil {
		return nil, err
	}
	slices.Reverse(found.Versions)
	return found.Versions, nil
}

// Known returns the keys of the items of one kind that a server has, or the URIs of its followed resources,
// as far as they are known.
func (c *Client) Known(ctx context.Context, server string, section lock.Section) (keys []string, err error) {
	if c.log != nil {
		states, err := c.log.States(ctx, server)
		for r := range states.Resources {
			if section == lock.SectionContents {
				keys = append(keys, r.URI)
			}
		}
		return append(keys, states.Lists[journal.ListName{ServerID: server, Kind: catalog.Kind(section)}].Keys()...), err
	}
	if kind := catalog.Kind(section); section != lock.SectionContents && kind != catalog.Resources {
		var detail map[string]json.RawMessage
		var items []json.RawMessage
		err = c.Get(ctx, []string{"api", "servers", server}, nil, &detail)
		_ = json.Unmarshal(detail[strings.TrimSuffix(string(kind), "s")+"List"], &items) // absent if there is no such list
		for _, raw := range items {
			if it, err := catalog.NewItem(kind, raw); err == nil {
				keys = append(keys, it.Key)
			}
		}
		return keys, err
	}
	var resources []struct{ URI string }
	err = c.Get(ctx, []string{"api", "servers", server, "resources"}, nil, &resources)
	for _, r := range resources {
		keys = append(keys, r.URI)
	}
	return keys, err
}

// Text returns the text of the resource version with the given digest, or the current text for the
// zero digest. ok is false if the text is not available.
func (c *Client) Text(ctx context.Context, server, uri string, digest catalog.Digest) (text string, ok bool, err error) {
	return c.text(ctx, server, url.Values{"uri": {uri}}, digest)
}

// Definition returns the definition of an item with the given digest. ok is false if it is not
// available.
func (c *Client) Definition(ctx context.Context, server, item string, digest catalog.Digest) (text string, ok bool, err error) {
	return c.text(ctx, server, url.Values{"item": {item}}, digest)
}

func (c *Client) text(ctx context.Context, server string, query url.Values, digest catalog.Digest) (text string, ok bool, err error) {
	if !digest.IsZero() {
		if c.log != nil {
			if text, ok, err = c.log.Contents().Get(ctx, digest); ok || err != nil {
				return text, ok, err
			}
		}
		query.Set("digest", digest.String())
	}
	var found struct {
		Text *string `json:"text"`
	}
	err = c.Get(ctx, []string{"api", "servers", server, "content"}, query, &found)
	if status, is := errors.AsType[*RefusedError](err); is && status.Status == http.StatusNotFound {
		return "", false, nil
	}
	if err != nil || found.Text == nil {
		return "", false, err
	}
	return *found.Text, true, nil
}
