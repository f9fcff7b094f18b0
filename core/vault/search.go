package vault

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"golang.org/x/sync/errgroup"

	"github.com/mcptrack/mcptrack/core/internal/textindex"
)

const (
	maxQuery    = 1024 // maximum length of a query, in bytes
	maxWords    = 16
	maxResults  = 100
	snippetText = 80 // runes of text displayed on each side of a matching word
)

// SearchOptions holds the arguments of a search. Query or Tag is required.
type SearchOptions struct {
	// Query is a list of words. A note matches if its title, text or tags contain all of them. A
	// word of three letters or more also matches longer words that start with it.
	Query string `json:"query"`
	// Tag selects notes with this tag or a tag nested in it, ignoring case.
	Tag string `json:"tag"`
	// Folder limits the search to notes in this folder and its subfolders.
	Folder string `json:"folder"`
	// Limit is the maximum number of results, from 1 to 100; 0 means 20.
	Limit int `json:"limit"`
}

// SearchResult is a note that matches a search.
type SearchResult struct {
	Path     string   `json:"path"`
	URI      string   `json:"uri"`
	Title    string   `json:"title"`
	Modified string   `json:"modifiedAt"`
	Tags     []string `json:"tags"`
	Score    float64  `json:"score,omitempty"`   // set only if a Query was specified
	Snippet  string   `json:"snippet,omitempty"` // text around a matching word; set only if a Query was specified
}

// ErrInvalid reports an invalid argument.
var ErrInvalid = errors.New("invalid argument")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// Search finds notes by words, sorted by relevance, or by tag only, newest first. total includes
// matches beyond the limit. The first search builds the index, which takes about a second for
// several thousand notes.
func (v *Vault) Search(ctx context.Context, o SearchOptions) (results []SearchResult, total int, err error) {
	wanted, err := o.normalize()
	if err != nil {
		return nil, 0, err
	}
	var scores map[string]float64
	if len(wanted) > 0 {
		if err := v.text.refresh(ctx, &v.now); err != nil {
			return nil, 0, err
		}
		scores = v.text.index.Search(wanted, true)
	}
	s := v.now.Load()
	type hit struct {
		*note
		score float64
	}
	var hits []hit
	for _, n := range s.recent {
		score, found := scores[n.path]
		if (found || len(wanted) == 0) && n.tagged(o.Tag) && within(n.path, o.Folder) {
			hits = append(hits, hit{n, score})
		}
	}
	slices.SortStableFunc(hits, func(a, b hit) int { return cmp.Compare(b.score, a.score) })
	results = []SearchResult{}
	for _, n := range hits[:min(len(hits), o.Limit)] {
		r := SearchResult{
			Path: n.path, URI: noteURI(n.path), Title: n.title, Modified: timestamp(n.modified),
			Tags: listOf(n.tags), Score: n.score,
		}
		if len(wanted) > 0 {
			if src, _, err := v.disk.read(n.path); err == nil {
				r.Snippet = snippet(searchable(src), wanted)
			}
		}
		results = append(results, r)
	}
	return results, len(hits), nil
}

// normalize validates the options, sets defaults, and returns the words in Query.
func (o *SearchOptions) normalize() (wanted []string, err error) {
	o.Tag = strings.Trim(strings.TrimPrefix(strings.TrimSpace(o.Tag), "#"), "/")
	o.Folder = strings.Trim(o.Folder, "/")
	switch {
	case len(o.Query) > maxQuery || len(o.Tag) > maxTagBytes:
		return nil, invalid("query must not exceed %d bytes, and tag %d bytes", maxQuery, maxTagBytes)
	case o.Limit < 0 || o.Limit > maxResults:
		return nil, invalid("limit must be between 1 and %d", maxResults)
	case o.Folder != "" && checkPath(o.Folder) != nil:
		return nil, invalid("folder: %v", checkPath(o.Folder))
	}
	o.Limit = cmp.Or(o.Limit, defaultLimit)
	for word := range textindex.Words(o.Query, false) {
		if !slices.Contains(wanted, word) {
			wanted = append(wanted, word)
		}
	}
	if len(wanted) > maxWords {
		return nil, invalid("query must not exceed %d words", maxWords)
	}
	if len(wanted) == 0 && o.Tag == "" {
		return nil, invalid("query or tag is required")
	}
	if len(wanted) == 0 && strings.TrimSpace(o.Query) != "" {
		return nil, invalid("query contains no words")
	}
	return wanted, nil
}

// tagged reports whether a note has a tag or a tag nested in it; an empty tag matches any note.
func (n *note) tagged(tag string) bool {
	return tag == "" || slices.ContainsFunc(n.tags, func(t string) bool {
		return len(t) >= len(tag) && strings.EqualFold(t[:len(tag)], tag) && (len(t) == len(tag) || t[len(tag)] == '/')
	})
}

// snippet returns the text around the first matching word, on one line.
func snippet(text string, wanted []string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	low := strings.ToLower(text)
	at := -1
	if len(low) == len(text) { // otherwise offsets differ, and the start of the text is used
		for _, word := range wanted {
			if i := strings.Index(low, word); i >= 0 && (at < 0 || i < at) {
				at = i
			}
		}
	}
	from, to := 0, 0
	if at > 0 {
		from = at
		for range snippetText {
			_, size := utf8.DecodeLastRuneInString(text[:from])
			from -= size
		}
	}
	to = max(at, 0)
	for range snippetText {
		_, size := utf8.DecodeRuneInString(text[to:])
		to += size
	}
	s := shorten(text[from:to], 2*snippetText)
	if from > 0 {
		s = "…" + s
	}
	if to < len(text) {
		s += "…"
	}
	return s
}

const (
	// maxText is how many bytes of a note are indexed at most.
	maxText = 1 << 20
	// manyNotes is the number of notes read in one batch above which freed memory is returned to the
	// system.
	manyNotes = 1000

	// Weights of a word in a title or tag, relative to a word in the text.
	titleWeight, tagWeight = 5, 3
)

// noteTexts is the full-text index of the notes. It has no stemmer, because notes may be in any language.
// The first search builds it; later searches update it.
type noteTexts struct {
	disk  *disk
	md    *markdown
	index *textindex.Index[string] // each document is a note, identified by its path
	// turn is a semaphore: a search sends before it updates the index, and receives when it is done.
	// Its capacity is 1, and it is never closed.
	turn    chan struct{}
	indexed map[string][sha256.Size]byte // digests of the indexed notes, by path; used only by the search whose turn it is
}

func newNoteTexts(d *disk, md *markdown) *noteTexts {
	return &noteTexts{disk: d, md: md, index: textindex.New[string](), turn: make(chan struct{}, 1), indexed: make(map[string][sha256.Size]byte)}
}

// refresh updates the index to match the current snapshot. If ctx ends, the next search continues
// with the notes that are missing. A note that cannot be read keeps its old index entry.
func (x *noteTexts) refresh(ctx context.Context, now *atomic.Pointer[snapshot]) error {
	select {
	case x.turn <- struct{}{}:
		defer func() { <-x.turn }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	s := now.Load() // when it is this search's turn, so that the index never becomes older
	var late []*note
	for _, e := range s.entries {
		if n := e.note; n != nil && x.indexed[n.path] != n.digest {
			late = append(late, n)
		}
	}
	var read errgroup.Group
	read.SetLimit(max(2, runtime.GOMAXPROCS(0)))
	var mu sync.Mutex // guards x.indexed
	for notes := range slices.Chunk(late, readTogether) {
		read.Go(func() error {
			in, times := x.disk.reader(), make(map[string]int)
			defer in.close()
			for _, n := range notes {
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				src, _, err := in.read(n.path)
				if err != nil {
					continue
				}
				sum, f := sha256.Sum256(src), facts{title: n.title, tags: n.tags}
				if sum != n.digest { // the file has changed since it was scanned
					f = x.md.parse(n.path, src)
				}
				clear(times)
				count(times, f, src)
				x.index.Put(n.path, times)
				mu.Lock()
				x.indexed[n.path] = sum
				mu.Unlock()
			}
			return nil
		})
	}
	err := read.Wait()
	if len(x.indexed) > len(s.recent) {
		for p := range x.indexed {
			if s.note(p) == nil {
				x.index.Remove(p)
				delete(x.indexed, p)
			}
		}
	}
	if len(late) > manyNotes {
		debug.FreeOSMemory() // the texts occupy several times as much memory as the index
	}
	return err
}

// count adds to times how often each word of a note occurs, weighted by field.
func count(times map[string]int, f facts, src []byte) {
	add := func(text string, weight int) {
		for word := range textindex.Words(text, false) {
			times[word] += weight
		}
	}
	add(f.title, titleWeight)
	for _, tag := range f.tags {
		add(tag, tagWeight)
	}
	add(searchable(src), 1)
}

// searchable returns the part of a note that is indexed.
func searchable(src []byte) string {
	src = src[frontEnd(src):]
	return string(src[:min(len(src), maxText)])
}
