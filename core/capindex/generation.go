package capindex

import (
	"context"
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/textindex"
)

// A generation is all that was made of one view. It is immutable.
type generation struct {
	epoch     uint64
	expires   time.Time
	elements  []element
	index     *textindex.Index[int] // by places in elements; nobody writes to it any more
	documents map[string]Document   // by short name
}

// A flight is a generation in the making. Its result may be read once done is
// closed, which its goroutine does; nothing is sent.
type flight struct {
	epoch  uint64
	done   chan struct{}
	result *generation
	err    error
}

// generation returns the present generation, making it if there is none. However
// many ask, one is made.
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
	f := x.flight
	if f == nil || f.epoch != x.epoch { // one of an older epoch began before the change
		f = &flight{epoch: x.epoch, done: make(chan struct{})}
		x.flight = f
		x.inFlight.Go(func() { x.fly(f) })
	}
	x.mu.Unlock()
	select {
	case <-f.done:
		return f.result, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// fly makes a generation and keeps it, unless it is outdated by then.
func (x *Index) fly(f *flight) {
	f.result, f.err = x.generate(f.epoch)
	x.mu.Lock()
	if x.flight == f {
		x.flight = nil
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

// compare notes which documents differ from those of the generation before. One
// that is outdated counts too: those who waited for it have read it. It must be
// called with mu held.
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

// generate makes the documents of what the source tells.
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

// stamped is a text with one place for the time of its generation.
type stamped struct{ before, after string }

func (s stamped) at(t time.Time) string {
	return s.before + t.UTC().Format(time.RFC3339) + s.after
}

func (s stamped) digest() catalog.Digest {
	h := sha256.New()
	_, _ = fmt.Fprintf(h, "%d ", len(s.before)) // so that the place counts
	_, _ = h.Write([]byte(s.before))
	_, _ = h.Write([]byte(s.after))
	return catalog.Digest(h.Sum(nil))
}
