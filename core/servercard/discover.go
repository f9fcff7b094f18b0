package servercard

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"regexp"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/guarded"
	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Limits on one discovery.
const (
	maxRequests = 24
	maxEntries  = 200 // of a catalog
	maxCards    = 32
	maxNesting  = 2 // catalogs within catalogs
	maxTime     = time.Minute
)

// Address is where the user expects a server: a domain, or the URL of an endpoint or a document.
type Address struct {
	// URL has neither user, query nor fragment.
	URL *url.URL
	// Named is true if the user wrote a URL, and false if he wrote a host.
	Named bool
}

// IsAddress reports whether a text looks like the address of a server and not like its name: it is a URL,
// or its first part looks like a domain, an IP address or HOST:PORT.
func IsAddress(text string) bool {
	host, _, _ := strings.Cut(text, "/")
	switch {
	case strings.Contains(text, "://"):
		return true
	case text == "" || strings.ContainsAny(host, " \\@"):
		return false
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	name, port, _ := strings.Cut(host, ":")
	dot := strings.LastIndexByte(strings.TrimSuffix(name, "."), '.')
	return err == nil || strings.EqualFold(name, "localhost") || dot > 0 && len(name)-dot > 2 || port != "" && strings.Trim(port, "0123456789") == "" ||
		strings.HasPrefix(host, "[")
}

// ParseAddress parses what the user wrote. A host without a scheme is reached by https, and this machine
// by http.
func ParseAddress(text string) (Address, error) {
	a := Address{Named: strings.Contains(text, "://")}
	if !a.Named {
		if addr, err := netip.ParseAddr(text); err == nil && addr.Is6() {
			text = "[" + text + "]"
		}
		text = "https://" + text
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "" || !printable.VisibleASCII(text):
		return a, errors.New("it is not a domain or a URL such as https://HOST/mcp")
	case u.Scheme != "https" && u.Scheme != "http":
		return a, errors.New("the scheme must be https or http")
	case u.User != nil:
		return a, errors.New("a URL must not contain a user or a password")
	case u.RawQuery != "" || u.ForceQuery || strings.Contains(text, "#"):
		return a, errors.New("a URL must not contain a query or a fragment")
	}
	if !a.Named && ipscope.Loopback(u.Hostname()) {
		u.Scheme = "http"
	}
	u.Host = strings.ToLower(u.Host)
	a.URL = u
	return a, nil
}

// Endpoint reports whether the address may belong to an MCP endpoint: a URL with a path that does not
// name a document.
func (a Address) Endpoint() bool {
	return strings.Trim(a.URL.Path, "/") != "" && !a.Document()
}

// Document reports whether the address names a document.
func (a Address) Document() bool {
	return path.Ext(a.URL.Path) == ".json" || strings.HasSuffix(a.URL.Path, Suffix)
}

// at returns the address with another path.
func (a Address) at(path string) *url.URL {
	return &url.URL{Scheme: a.URL.Scheme, Host: a.URL.Host, Path: path}
}

// places returns the documents to try, in order.
func (a Address) places() []*url.URL {
	card := a.at(strings.TrimSuffix(a.URL.Path, "/") + Suffix)
	known := a.at(CatalogPath)
	drafts := []*url.URL{a.at(CardPath), a.at("/.well-known/mcp/catalog.json"), a.at("/.well-known/ard.json")}
	switch {
	case a.Document():
		return []*url.URL{a.URL}
	case a.Endpoint():
		return append([]*url.URL{card, known}, drafts...)
	}
	return append([]*url.URL{known, card}, drafts...)
}

// Located is a card, and where it was found.
type Located struct {
	*Card
	From string // URL of the document that contains the card
	// Usable are the remotes to which a client may connect; Refused says why others are not usable.
	Usable  []Remote
	Refused []string
}

// Attempt is the request for one document, or the card in an entry of a catalog.
type Attempt struct {
	URL    string // as it may be displayed
	Answer string // one line: what is wrong with the document, or what it has
}

// Result is what a discovery found.
type Result struct {
	Cards   []Located // with at least one usable remote
	Refused []Located // without one
	Tried   []Attempt
	// Guard must be used for connections to the remotes.
	Guard *guarded.Guard
}

// NotFoundError reports that an address leads to no card with a usable remote.
type NotFoundError struct {
	Address string
	Tried   []Attempt
	// Unreachable is true if the host did not answer at all.
	Unreachable bool
}

func (e *NotFoundError) Error() string {
	what := "has no usable server card"
	if e.Unreachable {
		what = "cannot be reached"
	}
	tried := make([]string, len(e.Tried))
	for i, t := range e.Tried {
		at := strings.TrimPrefix(t.URL, guarded.Origin(e.Address)) // the path, on the same host
		tried[i] = cmp.Or(at, t.URL) + ": " + t.Answer
	}
	return fmt.Sprintf("%s %s (tried %s)", e.Address, what, strings.Join(tried, "; "))
}

// Options configures [Discover]. The zero value is usable.
type Options struct {
	// Guard overrides options of the guard, such as its resolver, for tests.
	Guard guarded.Options
}

// Discover returns the cards that an address leads to. If the address names an endpoint, these are
// the cards that have it as a remote, with no other remote. An error is a [*NotFoundError], or the cause
// that ctx ended.
func Discover(ctx context.Context, a Address, opts Options) (*Result, error) {
	within, cancel := context.WithTimeoutCause(ctx, maxTime, fmt.Errorf("the search for server cards took more than %v", maxTime))
	defer cancel()
	opts.Guard.Server, opts.Guard.OwnHost = a.at("").String(), true
	d := &discovery{ctx: within, address: a, left: maxRequests, seen: map[string]bool{}}
	d.Guard = guarded.New(within, opts.Guard)
	d.client = d.Guard.Client()
	silent := false
	for _, place := range a.places() {
		silent = d.document(place, 0)
		if len(d.Cards) > 0 || silent || within.Err() != nil {
			break // a host that does not answer once does not answer for other documents
		}
	}
	if len(d.Cards) > 0 {
		return &d.Result, nil
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, &NotFoundError{Address: printable.Line(strings.TrimSuffix(a.URL.String(), "/"), 200), Tried: d.Tried, Unreachable: silent && len(d.Tried) == 1}
}

// discovery is the state of one call of Discover.
type discovery struct {
	Result
	ctx     context.Context
	address Address
	client  *http.Client
	left    int             // requests
	seen    map[string]bool // URLs of documents
}

// record notes the answer of a document.
func (d *discovery) record(u *url.URL, format string, args ...any) {
	if len(d.Tried) < 2*maxRequests {
		d.Tried = append(d.Tried, Attempt{guarded.ShowURL(u), printable.Line(fmt.Sprintf(format, args...), 300)})
	}
}

// document requests a document and takes its cards. It reports whether the host did not answer.
func (d *discovery) document(u *url.URL, nesting int) (silent bool) {
	switch {
	case d.seen[u.String()] || len(d.Cards) >= maxCards:
		return false
	case d.left == 0:
		return false
	}
	d.seen[u.String()] = true
	d.left--
	p, err := fetch(d.ctx, d.client, u, "")
	if err != nil {
		d.record(u, "%s", printable.Reason(err, 300))
		_, answered := errors.AsType[*answerError](err)
		return !answered
	}
	d.parse(u, p.data, nesting)
	return false
}

// answerError reports an answer other than a document.
type answerError struct {
	status int // of HTTP; 200 if the body is unusable, 0 if the request was refused by the guard
	reason string
}

func (e *answerError) Error() string { return e.reason }

// page is a document that was requested.
type page struct {
	data []byte
	etag string
}

// fetch requests a document, unless it still has the entity tag. An error is an [*answerError] unless the
// host did not answer.
func fetch(ctx context.Context, client *http.Client, u *url.URL, etag string) (page, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return page{}, errors.New("invalid URL")
	}
	q.Header.Set("Accept", CardType+", "+CatalogType+", application/json;q=0.9")
	if etag != "" {
		q.Header.Set("If-None-Match", etag)
	}
	p, err := client.Do(q)
	if err != nil {
		if ctx.Err() != nil {
			return page{}, context.Cause(ctx)
		}
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		if _, network := errors.AsType[net.Error](err); !network {
			return page{}, &answerError{0, err.Error()} // refused by the guard, or a redirect
		}
		return page{}, err
	}
	defer func() { _ = p.Body.Close() }()
	switch {
	case p.StatusCode != http.StatusOK:
		return page{}, &answerError{p.StatusCode, fmt.Sprintf("HTTP status %d", p.StatusCode)}
	case strings.Contains(p.Header.Get("Content-Type"), "html"):
		return page{}, &answerError{p.StatusCode, "an HTML page"}
	}
	data, err := io.ReadAll(p.Body)
	if err != nil {
		return page{}, &answerError{p.StatusCode, err.Error()}
	}
	if etag = p.Header.Get("ETag"); len(etag) > maxName {
		etag = ""
	}
	return page{data, etag}, nil
}

// parse takes the cards of a document, which is a card or a catalog.
func (d *discovery) parse(u *url.URL, data []byte, nesting int) {
	var doc struct {
		Entries *[]json.RawMessage `json:"entries"`
	}
	if err := decode(data, &doc); err != nil {
		d.record(u, "%s", err)
		return
	}
	if doc.Entries == nil {
		d.card(u, data)
		return
	}
	entries := *doc.Entries
	found := 0
	for _, raw := range entries[:min(len(entries), maxEntries)] {
		var e struct {
			Type      string          `json:"type"`
			MediaType string          `json:"mediaType"` // of drafts
			URL       string          `json:"url"`
			Data      json.RawMessage `json:"data"`
		}
		if json.Unmarshal(raw, &e) != nil {
			continue
		}
		if e.Type == "" {
			e.Type = e.MediaType
		}
		kind, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(e.Type)), ";")
		isCatalog := kind == CatalogType && nesting < maxNesting
		if kind != CardType && kind != earlierCardType && !isCatalog {
			continue
		}
		found++
		switch {
		case len(e.Data) > 0 && isCatalog:
			d.parse(u, e.Data, nesting+1)
		case len(e.Data) > 0:
			d.card(u, e.Data)
		default:
			d.follow(u, e.URL, nesting+1)
		}
	}
	switch {
	case found == 0:
		d.record(u, "a catalog without MCP servers")
	case d.left == 0 || len(d.Cards) >= maxCards:
		d.record(u, "a catalog with more documents than mcptrack requests")
	}
}

// follow requests the document that an entry of a catalog refers to.
func (d *discovery) follow(catalog *url.URL, text string, nesting int) {
	u, err := catalog.Parse(text)
	switch {
	case text == "" || err != nil || u.Hostname() == "" || !printable.VisibleASCII(text):
		d.record(catalog, "an entry has neither a valid URL nor data")
	case u.User != nil:
		d.record(u, "refused: the URL contains a user or a password")
	default:
		u.Fragment, u.RawFragment = "", ""
		d.document(u, nesting)
	}
}

// card takes a card.
func (d *discovery) card(u *url.URL, data []byte) {
	c, err := Parse(data)
	switch {
	case err != nil:
		d.record(u, "not a server card: %s", err)
		return
	case len(d.Cards) >= maxCards:
		return
	}
	l := Located{Card: c, From: guarded.ShowURL(u)}
	other := 0
	for _, r := range c.Remotes {
		if d.address.Endpoint() && strings.TrimSuffix(r.URL, "/") != strings.TrimSuffix(d.address.URL.String(), "/") {
			other++
			continue
		}
		if err := d.check(r); err != nil {
			l.Refused = append(l.Refused, printable.Reason(err, 300))
			continue
		}
		l.Usable = append(l.Usable, r)
	}
	switch {
	case len(l.Usable) > 0:
		d.record(u, "the card of %s", c.Label())
		d.Cards = append(d.Cards, l)
	case len(l.Refused) > 0:
		d.record(u, "the card of %s: its remotes are refused: %s", c.Label(), strings.Join(l.Refused, "; "))
		if len(d.Refused) < maxCards {
			d.Refused = append(d.Refused, l)
		}
	case other > 0:
		d.record(u, "the card of %s, which has other endpoints", c.Label())
	default:
		d.record(u, "the card of %s, which has no remotes", c.Label())
	}
}

// variables matches the names of variables in the URL or a header of a remote.
func variables() *regexp.Regexp { return regexp.MustCompile(`\{[a-zA-Z_][a-zA-Z0-9_]*\}`) }

// Expand replaces the variables in a text by what value returns for their names.
func Expand(text string, value func(name string) string) string {
	return variables().ReplaceAllStringFunc(text, func(s string) string { return value(s[1 : len(s)-1]) })
}

// Example returns the URL of a remote with all variables replaced: by their fixed or default value, or
// else by their name. It is nil if the user has to supply the scheme and the host.
func (r *Remote) Example() (*url.URL, error) {
	text := Expand(r.URL, func(name string) string {
		in := r.Variables[name]
		switch {
		case in.Value != "":
			return in.Value
		case in.Default != "":
			return in.Default
		}
		return strings.ReplaceAll(strings.ToLower(name), "_", "-")
	})
	if at := variables().FindStringIndex(r.URL); at != nil && at[0] == 0 {
		in, rest := r.Variables[r.URL[1:at[1]-1]], r.URL[at[1]:]
		if in.Value == "" && in.Default == "" && (rest == "" || rest[0] == '/' && !strings.HasPrefix(rest, "//")) {
			return nil, nil
		}
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Opaque != "" || !printable.VisibleASCII(text):
		return nil, errors.New("a remote has no valid URL")
	case u.Scheme != "https" && u.Scheme != "http":
		return nil, fmt.Errorf("%s is neither https nor http", guarded.ShowURL(u))
	case u.User != nil:
		return nil, fmt.Errorf("%s contains a user or a password", guarded.ShowURL(u))
	}
	return u, nil
}

// check refuses a remote to which a client must not connect because a card says so.
func (d *discovery) check(r Remote) error {
	if r.Type != StreamableHTTP && r.Type != SSE {
		return fmt.Errorf("the transport %s is not supported", printable.Line(r.Type, 40))
	}
	u, err := r.Example()
	if err != nil || u == nil {
		return err
	}
	return d.Guard.Check(d.ctx, u)
}
