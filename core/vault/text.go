package vault

import (
	"context"
	"crypto/sha256"
	"errors"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

const (
	// maxText is how much of a note is searched.
	maxText = 1 << 20
	// maxTerms is how many different words of a note are found.
	maxTerms = 20_000
	// maxTerm is how long a word may be, in bytes; longer ones are not found.
	maxTerm = 64
	// manyNotes is after how many read in one go their memory is given back.
	manyNotes = 1000

	// What a word in a title or a tag counts, in words of the text.
	titleWeight, tagWeight = 5, 3
)

// textIndex finds notes by their words. It is made when somebody first searches,
// costs nothing before, and is brought in line with the notes by each search.
//
// It is an inverted index in memory: of every word the notes that have it, ranked
// as BM25 does. A note that changes becomes a new document; dead ones are swept once
// they are a quarter.
type textIndex struct {
	disk *disk
	md   *markdown

	ctx    context.Context // done when the index is closed
	cancel context.CancelFunc
	wg     sync.WaitGroup // the build in work

	mu       sync.Mutex
	building chan struct{} // closed by the build in work when it is over; nil: none

	use   sync.RWMutex // held to search, and to take in what was read
	terms map[string][]posting
	docs  []document // by number
	byID  map[string]uint32
	dead  int
	words uint64 // in all documents that live
}

// posting is one document that has a word, and how often, with weights and up to
// 255: there are many, so both are in one number.
type posting uint32

// maxDocs is how many documents a posting can name.
const maxDocs = 1 << 24

func newPosting(doc, count uint32) posting { return posting(doc<<8 | min(count, 255)) }
func (p posting) doc() uint32              { return uint32(p) >> 8 }
func (p posting) count() float64           { return float64(p & 255) }

// document is one state of a note.
type document struct {
	path   string
	digest [sha256.Size]byte
	words  uint32
	dead   bool
}

func (x *textIndex) start(d *disk, md *markdown) {
	x.disk, x.md = d, md
	x.terms, x.byID = make(map[string][]posting), make(map[string]uint32)
	x.ctx, x.cancel = context.WithCancel(context.Background())
}

// close ends a build in work. Nobody may search any more.
func (x *textIndex) close() {
	x.mu.Lock()
	x.cancel()
	x.mu.Unlock()
	x.wg.Wait()
}

// refresh brings the index in line with a snapshot. A build goes on when the one who
// asked for it leaves: the next one will want it.
func (x *textIndex) refresh(ctx context.Context, s *snapshot) error {
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
// documents yet, or are others now.
func (x *textIndex) behind(s *snapshot) (gone []string, late []*note) {
	x.use.RLock()
	defer x.use.RUnlock()
	for _, n := range s.recent {
		if id, ok := x.byID[n.path]; !ok || x.docs[id].digest != n.digest {
			late = append(late, n)
		}
	}
	if len(x.byID)+len(late) > len(s.recent) {
		for p := range x.byID {
			if s.note(p) == nil {
				gone = append(gone, p)
			}
		}
	}
	return gone, late
}

// build reads notes and takes them in. One that cannot be read is left as it is:
// the snapshot will soon say why.
func (x *textIndex) build(gone []string, late []*note) {
	var read errgroup.Group
	read.SetLimit(max(2, runtime.GOMAXPROCS(0)))
	for _, n := range late {
		read.Go(func() error {
			if x.ctx.Err() != nil {
				return nil
			}
			src, _, err := x.disk.read(n.path)
			if err != nil {
				return nil
			}
			counts, words := x.count(n.path, src)
			x.use.Lock()
			defer x.use.Unlock()
			x.drop(n.path)
			x.add(n.path, sha256.Sum256(src), counts, words)
			return nil
		})
	}
	_ = read.Wait() // no job returns an error
	x.use.Lock()
	for _, p := range gone {
		x.drop(p)
	}
	x.sweep()
	x.use.Unlock()
	if len(late) > manyNotes {
		debug.FreeOSMemory() // their texts, which are several times the index
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	close(x.building)
	x.building = nil
}

// count returns how often each word is in a note, with weights, and how many there
// are in its text.
func (x *textIndex) count(p string, src []byte) (counts map[string]uint32, words uint32) {
	f := x.md.parse(p, src)
	counts = make(map[string]uint32)
	take := func(text string, weight uint32) {
		for word := range wordsOf(text) {
			if _, known := counts[word]; known || len(counts) < maxTerms {
				counts[word] += weight
			}
			words++
		}
	}
	take(searchable(src), 1)
	take(f.title, titleWeight)
	for _, tag := range f.tags {
		take(tag, tagWeight)
	}
	return counts, words
}

func (x *textIndex) add(p string, digest [sha256.Size]byte, counts map[string]uint32, words uint32) {
	id := uint32(len(x.docs))
	if id == maxDocs {
		return // far more than a vault may have
	}
	x.docs = append(x.docs, document{path: p, digest: digest, words: words})
	x.byID[p] = id
	x.words += uint64(words)
	for word, n := range counts {
		list, known := x.terms[word]
		if !known {
			word = strings.Clone(word) // else it holds the whole text
		}
		x.terms[word] = append(list, newPosting(id, n))
	}
}

func (x *textIndex) drop(p string) {
	id, ok := x.byID[p]
	if !ok {
		return
	}
	delete(x.byID, p)
	x.docs[id].dead = true
	x.words -= uint64(x.docs[id].words)
	x.dead++
}

// sweep takes dead documents out once there are many.
func (x *textIndex) sweep() {
	if x.dead*4 <= len(x.docs) {
		return
	}
	number := make([]uint32, len(x.docs))
	var docs []document
	for id, d := range x.docs {
		if !d.dead {
			number[id] = uint32(len(docs))
			x.byID[d.path] = number[id]
			docs = append(docs, d)
		}
	}
	for word, list := range x.terms {
		var kept []posting
		for _, p := range list {
			if !x.docs[p.doc()].dead {
				kept = append(kept, newPosting(number[p.doc()], uint32(p.count())))
			}
		}
		if kept == nil {
			delete(x.terms, word)
		} else {
			x.terms[word] = kept
		}
	}
	x.docs, x.dead = docs, 0
}
