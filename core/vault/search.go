package vault

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxQuery    = 1024 // bytes
	maxWords    = 16
	maxResults  = 100
	snippetText = 80 // runes on either side of a word
)

// SearchOptions are the arguments of a search. Query or Tag is required.
type SearchOptions struct {
	// Query is a list of words. A note must have all of them, in its title, text or
	// tags. A word of three letters or more also matches longer words that begin with
	// it.
	Query string `json:"query"`
	// Tag matches the tag and nested tags, ignoring case.
	Tag string `json:"tag"`
	// Folder limits the search to notes below it.
	Folder string `json:"folder"`
	// Limit is the number of results, up to 100; 0 means 20.
	Limit int `json:"limit"`
}

// SearchResult is one matching note.
type SearchResult struct {
	Path     string   `json:"path"`
	URI      string   `json:"uri"`
	Title    string   `json:"title"`
	Modified string   `json:"modifiedAt"`
	Tags     []string `json:"tags"`
	Score    float64  `json:"score,omitempty"`   // with Query only
	Snippet  string   `json:"snippet,omitempty"` // with Query only: text around a word
}

// ErrInvalid is an invalid argument.
var ErrInvalid = errors.New("invalid argument")

func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %s", ErrInvalid, fmt.Sprintf(format, args...))
}

// Search finds notes, by words with the best match first, by tag alone with the
// newest note first. total includes matches beyond the limit. The first search builds
// the index, which takes about a second for some thousands of notes.
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

// normalize checks the options, sets defaults, and returns the words of Query.
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

// tagged reports whether a note has a tag or one nested in it; "" matches any note.
func (n *note) tagged(tag string) bool {
	return tag == "" || slices.ContainsFunc(n.tags, func(t string) bool {
		return len(t) >= len(tag) && strings.EqualFold(t[:len(tag)], tag) && (len(t) == len(tag) || t[len(tag)] == '/')
	})
}

// snippet returns the text around the first match of a word, on one line.
func snippet(text string, wanted []string) string {
	text = strings.ToValidUTF8(text, "\ufffd")
	low := strings.ToLower(text)
	at := -1
	if len(low) == len(text) { // else offsets differ: show the beginning
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
