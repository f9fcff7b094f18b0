package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/core/textindex"
)

const (
	// maxText is how much of a note is searched.
	maxText = 1 << 20
	// manyNotes is after how many read in one go their memory is given back.
	manyNotes = 1000

	// What a word in a title or a tag counts, in words of the text.
	titleWeight, tagWeight = 5, 3

	// minPrefix is how many letters of a word find longer ones, which count less.
	minPrefix    = 3
	prefixWeight = 0.2
)

// textOptions have no stemmer: notes are in any language.
func textOptions() textindex.Options { return textindex.Options{MaxText: maxText} }

// noteTexts finds notes by their words. It is filled when somebody first searches,
// costs nothing before, and is brought in line with the notes by each search.
type noteTexts struct {
	disk  *disk
	md    *markdown
	index *textindex.Index[string] // by paths

	ctx    context.Context // done when it is closed
	cancel context.CancelFunc
	wg     sync.WaitGroup // the build in work

	mu       sync.Mutex
	building chan struct{}                // closed by the build in work when it is over; nil: none
	indexed  map[string][sha256.Size]byte // digests of the notes that are in the index
}

func (x *noteTexts) start(d *disk, md *markdown, most int) {
	x.disk, x.md = d, md
	opts := textOptions()
	opts.MaxDocuments = most
	x.index = textindex.New[string](opts)
	x.indexed = make(map[string][sha256.Size]byte)
	x.ctx, x.cancel = context.WithCancel(context.Background())
}

// close ends a build in work. Nobody may search any more.
func (x *noteTexts) close() {
	x.mu.Lock()
	x.cancel()
	x.mu.Unlock()
	x.wg.Wait()
}

// refresh brings the index in line with a snapshot. A build goes on when the one who
// asked for it leaves: the next one will want it.
func (x *noteTexts) refresh(ctx context.Context, s *snapshot) error {
	for range 2 { // notes that change meanwhile are not waited for
		x.mu.Lock()
		if x.ctx.Err() != nil {
			x.mu.Unlock()
			return errors.New("the vault is closed")
		}
		if x.building == nil {
			gone, late := x.behind(s)
			if len(gone)+len(late) == 0 {
				x.mu.Unlock()
				return nil
			}
			x.building = make(chan struct{})
			x.wg.Go(func() { x.build(gone, late) })
		}
		done := x.building
		x.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// behind says which documents are no notes any more and which notes are no
// documents yet, or are others now. It must be called with mu held.
func (x *noteTexts) behind(s *snapshot) (gone []string, late []*note) {
	for _, n := range s.recent {
		if digest, ok := x.indexed[n.path]; !ok || digest != n.digest {
			late = append(late, n)
		}
	}
	if len(x.indexed)+len(late) > len(s.recent) {
		for p := range x.indexed {
			if s.note(p) == nil {
				gone = append(gone, p)
			}
		}
	}
	return gone, late
}

// build reads notes and takes them in. One that cannot be read is left as it is:
// the snapshot will soon say why.
func (x *noteTexts) build(gone []string, late []*note) {
	var read errgroup.Group
	read.SetLimit(max(2, runtime.GOMAXPROCS(0)))
	digests := make([]*[sha256.Size]byte, len(late)) // nil: it was not read
	for i, n := range late {
		read.Go(func() error {
			if x.ctx.Err() != nil {
				return nil
			}
			src, _, err := x.disk.read(n.path)
			if err != nil {
				return nil
			}
			x.index.Put(n.path, x.fields(n.path, src)...)
			digest := sha256.Sum256(src)
			digests[i] = &digest
			return nil
		})
	}
	_ = read.Wait() // no job returns an error
	for _, p := range gone {
		x.index.Remove(p)
	}
	if len(late) > manyNotes {
		debug.FreeOSMemory() // their texts, which are several times the index
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for i, n := range late {
		if digests[i] != nil {
			x.indexed[n.path] = *digests[i]
		}
	}
	for _, p := range gone {
		delete(x.indexed, p)
	}
	close(x.building)
	x.building = nil
}

// fields are what a note is found by.
func (x *noteTexts) fields(p string, src []byte) []textindex.Field {
	f := x.md.parse(p, src)
	fields := []textindex.Field{{Text: f.title, Weight: titleWeight}}
	for _, tag := range f.tags {
		fields = append(fields, textindex.Field{Text: tag, Weight: tagWeight})
	}
	return append(fields, textindex.Field{Text: searchable(src)})
}

// hits returns the notes of a snapshot that have all words of a query, with their
// scores.
func (x *noteTexts) hits(ctx context.Context, s *snapshot, query string) (map[string]float64, error) {
	if err := x.refresh(ctx, s); err != nil {
		return nil, err
	}
	hits := x.index.Search(textindex.Query{
		Text: query, All: true, Prefix: textindex.Prefix{Min: minPrefix, Weight: prefixWeight},
	})
	scores := make(map[string]float64, len(hits))
	for _, h := range hits {
		scores[h.ID] = math.Round(h.Score*1e4) / 1e4
	}
	return scores, nil
}

// searchable is the part of a note's text that can be found.
func searchable(src []byte) string {
	src = src[frontEnd(src):]
	return string(src[:min(len(src), maxText)])
}
