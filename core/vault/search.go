package vault

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
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
	s := v.now.Load()
	var scores map[string]float64
	if len(wanted) > 0 {
		if scores, err = v.text.hits(ctx, s, o.Query); err != nil {
			return nil, 0, err
		}
	}
	var hits []*note
	for _, n := range s.recent {
		_, found := scores[n.path]
		if (found || len(wanted) == 0) && n.tagged(o.Tag) && within(n.path, o.Folder) {
			hits = append(hits, n)
		}
	}
	slices.SortStableFunc(hits, func(a, b *note) int { return cmp.Compare(scores[b.path], scores[a.path]) })
	results = []SearchResult{}
	for _, n := range hits[:min(len(hits), o.Limit)] {
		r := SearchResult{
			Path: n.path, URI: noteURI(n.path), Title: n.title, Modified: timestamp(n.modified),
			Tags: listOf(n.tags), Score: scores[n.path],
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
	for word := range textOptions().Words(o.Query) {
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

	// minPrefix is the minimum length of a query word that also matches longer words that start
	// with it; such a match has the weight prefixWeight instead of 1.
	minPrefix    = 3
	prefixWeight = 0.2
)

// textOptions returns the options of the full-text index. It has no stemmer, because notes may be
// in any language.
func textOptions() textindex.Options { return textindex.Options{MaxText: maxText} }

// noteTexts is the full-text index of the notes. The first search builds it; later searches update
// it.
type noteTexts struct {
	disk  *disk
	md    *markdown
	index *textindex.Index[string] // each document is a note, identified by its path

	ctx    context.Context // cancelled by close
	cancel context.CancelFunc
	wg     sync.WaitGroup // waits for the build that is in progress

	mu       sync.Mutex
	building chan struct{}                // closed when the build in progress finishes; nil if there is none
	indexed  map[string][sha256.Size]byte // digests of the indexed notes, keyed by path
}

func (x *noteTexts) start(d *disk, md *markdown, most int) {
	x.disk, x.md = d, md
	opts := textOptions()
	opts.MaxDocuments = most
	x.index = textindex.New[string](opts)
	x.indexed = make(map[string][sha256.Size]byte)
	x.ctx, x.cancel = context.WithCancel(context.Background())
}

// close cancels a build that is in progress and waits for it. Later searches fail.
func (x *noteTexts) close() {
	x.mu.Lock()
	x.cancel()
	x.mu.Unlock()
	x.wg.Wait()
}

// refresh updates the index to match a snapshot. If ctx ends, a build that refresh has started
// continues, for the benefit of the next search.
func (x *noteTexts) refresh(ctx context.Context, s *snapshot) error {
	for range 2 { // a build already in progress may not include recent changes
		x.mu.Lock()
		if x.ctx.Err() != nil {
			x.mu.Unlock()
			return errors.New("the vault is closed")
		}
		if x.building == nil {
			gone, late := x.stale(s)
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

// stale returns the indexed notes that no longer exist, and the notes that have changed or are not
// indexed yet. x.mu must be held.
func (x *noteTexts) stale(s *snapshot) (gone []string, late []*note) {
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

// build reads and indexes notes. A note that cannot be read keeps its old index entry until the
// next snapshot.
func (x *noteTexts) build(gone []string, late []*note) {
	var read errgroup.Group
	read.SetLimit(max(2, runtime.GOMAXPROCS(0)))
	digests := make([]*[sha256.Size]byte, len(late)) // nil if the note could not be read
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
	_ = read.Wait() // the jobs never return an error
	for _, p := range gone {
		x.index.Remove(p)
	}
	if len(late) > manyNotes {
		debug.FreeOSMemory() // the texts occupy several times as much memory as the index
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

// fields returns the indexed fields of a note.
func (x *noteTexts) fields(p string, src []byte) []textindex.Field {
	f := x.md.parse(p, src)
	fields := []textindex.Field{{Text: f.title, Weight: titleWeight}}
	for _, tag := range f.tags {
		fields = append(fields, textindex.Field{Text: tag, Weight: tagWeight})
	}
	return append(fields, textindex.Field{Text: searchable(src)})
}

// hits returns the scores of the notes that contain all words of a query, keyed by path.
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

// searchable returns the part of a note that is indexed.
func searchable(src []byte) string {
	src = src[frontEnd(src):]
	return string(src[:min(len(src), maxText)])
}
