package capindex

import (
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/internal/textindex"
)

// Weights of the members of an element: a word in its name is more relevant than one in
// its description.
const (
	weightKey         = 3
	weightTitle       = 2
	weightDescription = 1
)

// maxWord is the maximum length of a word in characters; longer ones are mostly hashes.
const maxWord = 40

// textOptions returns the bounds of a generation's index. Elements beyond them are
// counted and listed, but not found.
func textOptions() textindex.Options {
	return textindex.Options{
		Term: textindex.English, Identifiers: true, MinWord: 2, MaxWord: maxWord,
		MaxText: 4 << 10, MaxDocuments: 100_000, MaxVocabulary: 200_000,
	}
}

// newTextIndex indexes elements by their position, which is also the order of equal hits.
func newTextIndex(elements []element) *textindex.Index[int] {
	x := textindex.New[int](textOptions())
	for n := range elements {
		if !x.Put(n, elements[n].fields()...) {
			break
		}
	}
	return x
}

// fields returns the texts by which an element is found. Keywords are taken only from texts
// that are written for people: not from URIs, parameters and names of servers.
func (e *element) fields() []textindex.Field {
	named := e.kind == catalog.Tools || e.kind == catalog.Prompts
	fields := []textindex.Field{
		{Text: e.key, Weight: weightKey, Keywords: named},
		{Text: e.Title, Weight: weightTitle, Keywords: true},
		{Text: e.Description, Weight: weightDescription, Keywords: true},
		{Text: e.server.ID, Weight: weightDescription},
	}
	if e.Name != e.key {
		fields = append(fields, textindex.Field{Text: e.Name, Weight: weightKey, Keywords: true})
	}
	for _, p := range e.params {
		fields = append(fields, textindex.Field{Text: p.Name, Weight: weightDescription})
	}
	return fields
}
