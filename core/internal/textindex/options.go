package textindex

import "cmp"

// Options configure how texts are split into words, and the bounds of an index. Zero
// fields mean their defaults.
type Options struct {
	// Term maps a word to the term that is indexed and searched; "" skips the word. It
	// receives words as [Options.Words] yields them, must be a pure function, and may be
	// called concurrently. nil: every word is a term.
	Term func(word string) string
	// Identifiers splits identifiers: readFile, HTTPServer and read_file are two words
	// each. Otherwise each is one word.
	Identifiers bool
	// MinWord and MaxWord bound the length of a word in characters; 1 and 64 by default.
	// Other words are not indexed: long words are mostly hashes, which are not searched for.
	MinWord, MaxWord int
	// MaxText is how many bytes of a field are indexed; 1 MiB by default.
	MaxText int
	// MaxWords bounds the different words of a document; 20,000 by default.
	MaxWords int
	// MaxDocuments bounds the documents; 1,000,000 by default, at most 12,000,000.
	MaxDocuments int
	// MaxVocabulary bounds the different terms; 1,000,000 by default. The terms of removed
	// documents count until a later Put or Remove discards them (see the package comment).
	MaxVocabulary int
}

func (o Options) withDefaults() Options {
	o.MinWord = cmp.Or(max(o.MinWord, 0), 1)
	o.MaxWord = cmp.Or(max(o.MaxWord, 0), 64)
	o.MaxText = cmp.Or(max(o.MaxText, 0), 1<<20)
	o.MaxWords = cmp.Or(max(o.MaxWords, 0), 20_000)
	o.MaxDocuments = min(cmp.Or(max(o.MaxDocuments, 0), 1_000_000), mostDocuments)
	o.MaxVocabulary = cmp.Or(max(o.MaxVocabulary, 0), 1_000_000)
	return o
}
