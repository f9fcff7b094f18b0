package capindex

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/internal/textindex"
	"github.com/mcptrack/mcptrack/core/printable"
)

// ErrNotFound reports that the document does not exist or is not exposed.
var ErrNotFound = errors.New("resource not found")

// DefaultTTL is the default for Options.TTL.
const DefaultTTL = 5 * time.Minute

const scheme = "capability-index://"

// Names returns the short names of all documents, for use in Options.Expose.
func Names() []string { return []string{"summary", "full", "stats"} }

// Options configures an Index. The zero value exposes all documents of an empty snapshot.
type Options struct {
	// Source returns the current snapshot. It is called once per generation, and should return quickly. nil means an
	// empty snapshot.
	Source func() Capabilities
	// Expose lists the short names of the documents to expose; empty means all.
	Expose []string
	// TTL is how long a generation remains valid; default 5 min.
	TTL time.Duration
}

// An Index provides the documents and the search. Its methods are safe for concurrent
// use.
type Index struct {
	opts    Options
	exposed []string // short names of the exposed documents, in the order of Names

	// making is held while a generation is created: sent to, and then received from. It has capacity 1 and is never
	// closed.
	making chan struct{}

	mu      sync.Mutex                // guards the fields below; not held while a generation is created
	epoch   uint64                    // incremented by Invalidate
	current *generation               // nil if there is none
	latest  map[string]catalog.Digest // digests of the most recently generated documents, by short name
	changed map[string]bool           // short names of documents that have changed since the last Changed
}

// New validates the options and creates an Index. It starts no goroutine and generates no document.
func New(opts Options) (*Index, error) {
	opts.TTL = cmp.Or(opts.TTL, DefaultTTL)
	if opts.TTL < 0 {
		return nil, errors.New("capability index: TTL must be positive")
	}
	x := &Index{opts: opts, making: make(chan struct{}, 1), latest: map[string]catalog.Digest{}, changed: map[string]bool{}}
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
	return x, nil
}

// A Document is a resource that belongs to one generation.
type Document struct {
	URI      string
	MimeType string
	Text     string
	// Digest is computed over the text except the generation time.
	Digest    catalog.Digest
	Generated time.Time
	Expires   time.Time
}

// TTL returns how long the document remains valid; it is never negative. Clients receive it as
// ttlMs.
func (d Document) TTL() time.Duration { return max(0, time.Until(d.Expires)) }

// Resources returns the MCP descriptors of the exposed documents.
func (x *Index) Resources() []json.RawMessage {
	var out []json.RawMessage
	for _, name := range x.exposed {
		title, description, mimeType := describe(name)
		raw, _ := json.Marshal(struct { // encoding strings cannot fail
			URI         string `json:"uri"`
			Name        string `json:"name"`
			Title       string `json:"title"`
			Description string `json:"description"`
			MimeType    string `json:"mimeType"`
		}{scheme + name, "capability-index-" + name, title, description, mimeType})
		out = append(out, raw)
	}
	return out
}

func describe(name string) (title, description, mimeType string) {
	const markdown = "text/markdown"
	switch name {
	case "summary":
		return "Capability index: summary", "What all servers offer, in about 3,000 tokens: counts, servers, keywords, latest updates.", markdown
	case "full":
		return "Capability index: full", "Every tool, prompt, resource and template of all servers with description and parameters.", markdown
	default:
		return "Capability index: statistics", "Counts and sizes of the capability index, as JSON.", "application/json"
	}
}

// Read returns a document, and generates it first if there is no valid one. The error is [ErrNotFound] or, while
// another reader generates it, the cause of ctx.
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

// Invalidate discards the current generation because the snapshot has changed. Reads that start after
// Invalidate has returned receive a newer generation.
func (x *Index) Invalidate() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.epoch++
	x.current = nil
}

// Changed discards the current generation, creates a new one, and returns the URIs of the exposed
// documents whose subscribers must be notified. These are the documents that differ from a version
// that clients may have read since the last Changed call that returned their URIs. For the first
// generation, it returns all documents, because clients may subscribe before they read. Changed
// must not be called concurrently.
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

// A generation holds all documents and the text index created from one snapshot. It is immutable.
type generation struct {
	expires   time.Time
	elements  []element
	index     *textindex.Index[int] // text index of element positions; read-only
	sizes     textindex.Stats       // of index
	keywords  []keyword             // at most vocabulary, the most common first
	documents map[string]Document   // keyed by short name
}

// generation returns the current generation. If there is none or it has expired, it creates one, which concurrent
// callers share.
func (x *Index) generation(ctx context.Context) (*generation, error) {
	select {
	case x.making <- struct{}{}:
		defer func() { <-x.making }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	x.mu.Lock()
	g, epoch := x.current, x.epoch
	x.mu.Unlock()
	if g != nil && time.Now().Before(g.expires) {
		return g, nil
	}
	g = x.generate()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.compare(g)
	if epoch == x.epoch {
		x.current = g
	}
	return g, nil
}

// compare records which documents in g differ from those of the previous generation. An outdated
// generation is compared, too, because its reader has received its documents. x.mu must be held.
func (x *Index) compare(g *generation) {
	for name, d := range g.documents {
		latest, known := x.latest[name]
		if known && latest != d.Digest {
			x.changed[name] = true
		}
		x.latest[name] = d.Digest
	}
}

// generate creates all documents from a new snapshot.
func (x *Index) generate() *generation {
	var snapshot Capabilities
	if x.opts.Source != nil {
		snapshot = x.opts.Source().sorted()
	}
	now := time.Now()
	g := &generation{expires: now.Add(x.opts.TTL), elements: snapshot.elements(), documents: map[string]Document{}}
	g.addTexts()
	for _, name := range x.exposed {
		var text stamped
		switch name {
		case "summary":
			text = summary(snapshot, g, x.exposed)
		case "full":
			text = full(snapshot, g)
		case "stats":
			text = stats(snapshot, g, x.opts.TTL, x.exposed)
		}
		_, _, mimeType := describe(name)
		g.documents[name] = Document{URI: scheme + name, MimeType: mimeType, Text: text.at(now),
			Digest: text.digest(), Generated: now, Expires: g.expires}
	}
	return g
}

// stamped is a document in which the generation time is inserted between before and after.
type stamped struct{ before, after string }

func (s stamped) at(t time.Time) string {
	return s.before + t.UTC().Format(time.RFC3339) + s.after
}

func (s stamped) digest() catalog.Digest {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%d ", len(s.before)) // the position of the time is part of the digest
	_, _ = h.Write([]byte(s.before))
	_, _ = h.Write([]byte(s.after))
	return catalog.Digest(h.Sum(nil))
}
