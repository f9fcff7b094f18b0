package capindex

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/internal/textindex"
	"github.com/mcptrack/mcptrack/core/printable"
)

// A generation holds everything made from one view. It is immutable.
type generation struct {
	epoch     uint64
	expires   time.Time
	elements  []element
	index     *textindex.Index[int] // of indices of elements; read-only
	documents map[string]Document   // by short name
}

// A build is a generation in progress. Its goroutine sets result or err and then closes
// done, on which nothing is sent.
type build struct {
	epoch  uint64
	done   chan struct{}
	result *generation
	err    error
}

// generation returns the current generation. If there is none, or it has expired, it waits
// for a new one, which concurrent callers share.
func (x *Index) generation(ctx context.Context) (*generation, error) {
	x.mu.Lock()
	switch g := x.current; {
	case x.closed:
		x.mu.Unlock()
		return nil, ErrClosed
	case g != nil && time.Now().Before(g.expires):
		x.mu.Unlock()
		return g, nil
	}
	f := x.build
	if f == nil || f.epoch != x.epoch { // a build of an older epoch started before the change
		f = &build{epoch: x.epoch, done: make(chan struct{})}
		x.build = f
		x.inFlight.Go(func() { x.run(f) })
	}
	x.mu.Unlock()
	select {
	case <-f.done:
		return f.result, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// run creates a generation and makes it the current one, unless it is outdated by then.
func (x *Index) run(f *build) {
	f.result, f.err = x.generate(f.epoch)
	x.mu.Lock()
	if x.build == f {
		x.build = nil
	}
	if f.err == nil && !x.closed {
		x.compare(f.result)
		if f.epoch == x.epoch {
			x.current = f.result
		}
	}
	x.mu.Unlock()
	close(f.done)
}

// compare records which documents of g differ from those of the previous generation. A
// generation that is already outdated counts, too, because the readers that waited for it
// have seen it. x.mu must be held.
func (x *Index) compare(g *generation) {
	for name, d := range g.documents {
		latest, known := x.latest[name]
		if known && latest != d.Digest {
			x.changed[name] = true
		}
		if !known || g.epoch >= x.compared {
			x.latest[name] = d.Digest
		}
	}
	x.compared = max(x.compared, g.epoch)
}

// generate creates the documents from a new view.
func (x *Index) generate(epoch uint64) (g *generation, err error) {
	defer func() {
		if p := recover(); p != nil {
			g, err = nil, fmt.Errorf("capability index: generating it panicked: %s", printable.Line(fmt.Sprint(p), 300))
		}
	}()
	var view View
	if x.opts.Source != nil {
		view = x.opts.Source().sorted()
	}
	if x.life.Err() != nil {
		return nil, ErrClosed
	}
	now := time.Now()
	g = &generation{epoch: epoch, expires: now.Add(x.opts.TTL), elements: view.elements(), documents: map[string]Document{}}
	g.index = newTextIndex(g.elements)
	if x.life.Err() != nil {
		return nil, ErrClosed
	}
	for _, name := range x.exposed {
		var text stamped
		switch name {
		case "summary":
			text = summary(view, g.index, x.exposed)
		case "full":
			text = full(view, g)
		case "stats":
			text = stats(view, g.index.Stats(), x.opts.TTL, x.exposed)
		}
		g.documents[name] = Document{URI: scheme + name, MimeType: mimeType(name), Text: text.at(now),
			Digest: text.digest(), Generated: now, Expires: g.expires}
	}
	return g, nil
}

// stamped is a document whose time of generation is inserted between before and after.
type stamped struct{ before, after string }

func (s stamped) at(t time.Time) string {
	return s.before + t.UTC().Format(time.RFC3339) + s.after
}

func (s stamped) digest() catalog.Digest {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%d ", len(s.before)) // so that the position matters
	_, _ = h.Write([]byte(s.before))
	_, _ = h.Write([]byte(s.after))
	return catalog.Digest(h.Sum(nil))
}
