package capindex

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Errors that callers can check with errors.Is.
var (
	// ErrNotFound: the document does not exist or is not exposed.
	ErrNotFound = errors.New("resource not found")
	// ErrClosed: the index was closed.
	ErrClosed = errors.New("capability index closed")
)

// DefaultTTL is how long a generation lasts.
const DefaultTTL = 5 * time.Minute

const scheme = "capability-index://"

// Names returns the short names of the documents, as Options.Expose takes them.
func Names() []string { return []string{"summary", "full", "stats"} }

// Options configure an Index. The zero value exposes all documents of an empty view.
type Options struct {
	// Source returns the current view. It is called once for each generation, on its
	// goroutine, and should return quickly. nil means an empty view.
	Source func() View
	// Expose holds the short names of the documents to expose; empty means all.
	Expose []string
	// TTL is how long a generation lasts; 5 min by default.
	TTL time.Duration
}

// An Index provides the documents and the search. Its methods are safe for concurrent
// use.
type Index struct {
	opts    Options
	exposed []string // short names, in the order of Names

	life context.Context // ends with Close
	end  context.CancelCauseFunc

	mu       sync.Mutex // guards what follows
	closed   bool
	epoch    uint64                    // rises with Invalidate
	current  *generation               // nil when there is none
	build    *build                    // nil when none is in progress
	latest   map[string]catalog.Digest // of each document, by short name, as generated last
	compared uint64                    // the newest epoch whose documents are in latest
	changed  map[string]bool           // documents, by short name, that differ since Changed last returned
	inFlight sync.WaitGroup            // added to only while not closed
}

// New checks the options. It starts nothing and generates nothing.
func New(opts Options) (*Index, error) {
	opts.TTL = cmp.Or(opts.TTL, DefaultTTL)
	if opts.TTL < 0 {
		return nil, errors.New("capability index: TTL must be positive")
	}
	x := &Index{opts: opts, latest: map[string]catalog.Digest{}, changed: map[string]bool{}}
	for _, name := range opts.Expose {
		if !slices.Contains(Names(), name) {
			return nil, fmt.Errorf("capability index: unknown document %q; choose from %s", printable.Line(name, 64), strings.Join(Names(), ", "))
		}
	}
	for _, name := range Names() {
		if len(opts.Expose) == 0 || slices.Contains(opts.Expose, name) {
			x.exposed = append(x.exposed, name)
		}
	}
	x.life, x.end = context.WithCancelCause(context.Background())
	return x, nil
}

// A Document is one of the resources of a generation.
type Document struct {
	URI      string
	MimeType string
	Text     string
	// Digest covers the text without the time of generation.
	Digest    catalog.Digest
	Generated time.Time
	Expires   time.Time
}

// TTL returns for how long the document remains valid, as clients are told by ttlMs; never
// negative.
func (d Document) TTL() time.Duration { return max(0, time.Until(d.Expires)) }

// Resources returns the MCP descriptors of the exposed documents.
func (x *Index) Resources() []json.RawMessage {
	var out []json.RawMessage
	for _, name := range x.exposed {
		title, description := describe(name)
		raw, _ := json.Marshal(struct { // strings always encode
			URI         string `json:"uri"`
			Name        string `json:"name"`
			Title       string `json:"title"`
			Description string `json:"description"`
			MimeType    string `json:"mimeType"`
		}{scheme + name, "capability-index-" + name, title, description, mimeType(name)})
		out = append(out, raw)
	}
	return out
}

func describe(name string) (title, description string) {
	switch name {
	case "summary":
		return "Capability index: summary", "What all servers offer, in about 3,000 tokens: counts, servers, keywords, latest updates."
	case "full":
		return "Capability index: full", "Every tool, prompt, resource and template of all servers with description and parameters."
	default:
		return "Capability index: statistics", "Counts and sizes of the capability index, as JSON."
	}
}

func mimeType(name string) string {
	if name == "stats" {
		return "application/json"
	}
	return "text/markdown"
}

// Read returns a document, generating it if there is no valid one. Its errors are
// [ErrNotFound], [ErrClosed], the cause of ctx, and that of a failed generation.
func (x *Index) Read(ctx context.Context, uri string) (Document, error) {
	name, ok := strings.CutPrefix(uri, scheme)
	if !ok || !slices.Contains(x.exposed, name) {
		return Document{}, fmt.Errorf("%w: %s", ErrNotFound, printable.Line(uri, 200))
	}
	g, err := x.generation(ctx)
	if err != nil {
		return Document{}, err
	}
	return g.documents[name], nil
}

// Invalidate drops the current generation because the view has changed. Reads that start
// after it returns get a newer generation.
func (x *Index) Invalidate() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.epoch++
	x.current = nil
}

// Changed drops the current generation, makes a new one, and returns the URIs of the exposed
// documents whose subscribers must be notified: those that differ from a version that clients
// may have read since Changed last returned their URIs. For the first generation it returns
// all, as clients may subscribe before they read. Changed must not be called concurrently.
func (x *Index) Changed(ctx context.Context) ([]string, error) {
	x.Invalidate()
	x.mu.Lock()
	first := len(x.latest) == 0
	x.mu.Unlock()
	if _, err := x.generation(ctx); err != nil {
		return nil, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	var uris []string
	for _, name := range x.exposed {
		if first || x.changed[name] {
			uris = append(uris, scheme+name)
		}
	}
	clear(x.changed)
	return uris, nil
}

// Close aborts a generation in progress and waits for its goroutine. It may be called
// more than once.
func (x *Index) Close() {
	x.mu.Lock()
	x.closed = true
	x.current = nil
	x.mu.Unlock()
	x.end(ErrClosed)
	x.inFlight.Wait()
}
