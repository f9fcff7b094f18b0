package vault

import (
	"context"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	// minPrefix is how many letters of a word find longer ones, which count less.
	minPrefix    = 3
	prefixWeight = 0.2
)

// hits returns the notes of a snapshot that have all words, with their scores.
func (x *textIndex) hits(ctx context.Context, s *snapshot, wanted []string) (map[string]float64, error) {
	if err := x.refresh(ctx, s); err != nil {
		return nil, err
	}
	x.use.RLock()
	defer x.use.RUnlock()
	var all map[uint32]float64
	for _, word := range wanted {
		scores := make(map[uint32]float64)
		x.score(scores, x.terms[word], 1)
		if utf8.RuneCountInString(word) >= minPrefix {
			for longer, list := range x.terms {
				if len(longer) > len(word) && strings.HasPrefix(longer, word) {
					x.score(scores, list, prefixWeight)
				}
			}
		}
		if all != nil {
			for doc, score := range scores {
				if before, ok := all[doc]; ok {
					scores[doc] = score + before
				} else {
					delete(scores, doc)
				}
			}
		}
		all = scores
	}
	found := make(map[string]float64, len(all))
	for doc, score := range all {
		if p := x.docs[doc].path; s.note(p) != nil {
			found[p] = math.Round(score*1e4) / 1e4
		}
	}
	return found, nil
}

// score adds what a word counts in each document, by BM25 with its usual numbers.
func (x *textIndex) score(scores map[uint32]float64, list []posting, weight float64) {
	const k, b = 1.2, 0.75
	live := float64(len(x.docs) - x.dead)
	rare := math.Log(1 + (live-min(live, float64(len(list)))+0.5)/(float64(len(list))+0.5))
	average := max(1, float64(x.words)/max(1, live))
	for _, p := range list {
		if d := x.docs[p.doc()]; !d.dead {
			n := p.count()
			scores[p.doc()] += weight * rare * n * (k + 1) / (n + k*(1-b+b*float64(d.words)/average))
		}
	}
}

// searchable is the part of a note's text that can be found.
func searchable(src []byte) string {
	src = src[frontEnd(src):]
	return string(src[:min(len(src), maxText)])
}

// wordsOf divides a text into words in lower case: letters and digits that follow
// each other. Scripts that are written without spaces have words of one sign. There
// are no stop words and no stems: notes are in any language.
func wordsOf(text string) func(yield func(string) bool) {
	text = strings.ToLower(text)
	return func(yield func(string) bool) {
		from := -1
		end := func(at int) bool {
			word := ""
			if from >= 0 {
				word = text[from:at]
			}
			from = -1
			return word == "" || len(word) > maxTerm || yield(word)
		}
		for i, r := range text {
			switch {
			case 'a' <= r && r <= 'z' || '0' <= r && r <= '9' || r == '_': // most, and cheaply
				if from < 0 {
					from = i
				}
			case r < utf8.RuneSelf:
				if !end(i) {
					return
				}
			case unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai):
				if !end(i) || !yield(text[i:i+utf8.RuneLen(r)]) {
					return
				}
			case unicode.IsLetter(r) || unicode.IsDigit(r) || unicode.IsMark(r):
				if from < 0 {
					from = i
				}
			default:
				if !end(i) {
					return
				}
			}
		}
		end(len(text))
	}
}
