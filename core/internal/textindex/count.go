package textindex

import "strings"

// counted is a word of a document.
type counted struct {
	text    string // part of the text
	weight  uint64 // weighted frequency
	keyword uint64 // frequency in keyword fields
}

// count returns the different words of a document, in the order of their first occurrence.
func (o *Options) count(fields []Field) []counted {
	size := 0
	for _, f := range fields {
		size += min(len(f.Text), o.MaxText)
	}
	likely := min(size/8, 200) // a guess of the number of different words
	words, place := make([]counted, 0, likely), make(map[string]int, likely)
	for _, f := range fields {
		weight := uint64(min(max(f.Weight, 1), maxCount))
		o.words(f.Text[:min(len(f.Text), o.MaxText)], func(word string) bool {
			n, known := place[word]
			if !known {
				if n = len(words); n >= o.MaxWords {
					return true // known words still count
				}
				place[word] = n
				words = append(words, counted{text: word})
			}
			words[n].weight += weight
			if f.Keywords {
				words[n].keyword++
			}
			return true
		})
	}
	return words
}

// own returns copies of a word and its term, which do not keep the whole text in memory.
func own(word, term string) (string, string) {
	if term == word {
		word = strings.Clone(word)
		return word, word
	}
	return strings.Clone(word), strings.Clone(term)
}
