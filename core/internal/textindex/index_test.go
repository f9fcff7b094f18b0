package textindex

import (
	"fmt"
	"maps"
	"math"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// put adds a document with the words of a text.
func put[ID comparable](x *Index[ID], id ID, text string) {
	times := map[string]int{}
	for word := range Words(text, false) {
		times[word]++
	}
	x.Put(id, times)
}

// BM25 as defined in the package documentation, computed by hand for three documents of 4, 2 and 6
// words (average 4), where "b" counts 3 in the third:
//
//	idf(a), in 2 of 3:  ln(1 + 1.5/2.5) = 0.470003629
//	idf(b), in 1 of 3:  ln(1 + 2.5/1.5) = 0.980829253
//	a in 1: f 2, len/avg 1:    2·2.2/(2+1.2·1)     = 1.375 · idf(a) = 0.646254990
//	a in 2: f 1, len/avg 0.5:  2.2/(1+1.2·0.625)   = 1.257142857 · idf(a) = 0.590861705
//	b in 3: f 3, len/avg 1.5:  3·2.2/(3+1.2·1.375) = 1.419354839 · idf(b) = 1.392144746
func TestScores(t *testing.T) {
	t.Parallel()
	x := New[int]()
	x.Put(3, map[string]int{"b": 3, "xyz": 1, "y": 1, "z": 1})
	put(x, 1, "a a c d")
	put(x, 2, "a e")
	for query, want := range map[string]map[int]float64{
		"a":       {1: 0.6463, 2: 0.5909},
		"b":       {3: 1.3922},
		"a b":     {1: 0.6463, 2: 0.5909, 3: 1.3922},
		"nothing": {},
		"":        {},
	} {
		if got := x.Search(strings.Fields(query), false); !maps.Equal(got, want) {
			t.Errorf("%q: %v, want %v", query, got, want)
		}
	}
	for query, want := range map[string]map[int]float64{"a d": x.Search([]string{"a", "d"}, false), "a b": {}, "a nothing": {}} {
		delete(want, 2)
		if got := x.Search(strings.Fields(query), true); !maps.Equal(got, want) {
			t.Errorf("all of %q: %v, want %v", query, got, want)
		}
	}
	many := strings.Fields(strings.Repeat("a ", 64) + "d")
	if got := x.Search(many, false); !maps.Equal(got, x.Search(many[:64], false)) {
		t.Errorf("65 words: %v", got)
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	x := New[int]()
	for n, text := range []string{"bread", "breadcrumb", "breakfast", "bret bread", "brot", "字典"} {
		put(x, n, text)
	}
	for query, want := range map[string][]int{
		"br":         nil,
		"bre":        {3, 1, 2, 0}, // two words, rare, rare, frequent
		"bread":      {0, 3, 1},    // the word itself counts more
		"brea bret":  {3},
		"breads":     nil,
		"字":          {5},
		"bread brea": {0, 3, 1}, // a term may match several words
	} {
		scores := x.Search(strings.Fields(query), true)
		got := slices.SortedFunc(maps.Keys(scores), func(a, b int) int {
			if scores[a] == scores[b] {
				return a - b
			}
			return int(math.Copysign(1, scores[b]-scores[a]))
		})
		if !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", query, scores, want)
		}
	}
}

// After any puts and removals, a search finds what a scan of the documents finds, and scores equal
// the scores of an index of only the remaining documents.
func TestModel(t *testing.T) {
	t.Parallel()
	words := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"no", "note", "notes", "notebook", "read", "reading", "字", "42"}), 0, 6, rapid.ID)
	rapid.Check(t, func(r *rapid.T) {
		x, docs := New[int](), map[int]map[string]int{}
		for range rapid.IntRange(0, 30).Draw(r, "steps") {
			id := rapid.IntRange(0, 8).Draw(r, "id")
			if rapid.Bool().Draw(r, "remove") {
				x.Remove(id)
				delete(docs, id)
				continue
			}
			docs[id] = map[string]int{}
			for _, word := range words.Draw(r, "words") {
				docs[id][word] = rapid.IntRange(1, 300).Draw(r, "times")
			}
			x.Put(id, docs[id])
		}
		anew := New[int]()
		terms := map[string]bool{}
		for id, times := range docs {
			anew.Put(id, times)
			for word := range times {
				terms[word] = true
			}
		}
		query, all := words.Draw(r, "query"), rapid.Bool().Draw(r, "all")
		hits := x.Search(query, all)
		if other := anew.Search(query, all); !maps.Equal(hits, other) {
			r.Fatalf("%v, made anew %v", hits, other)
		}
		for id, times := range docs {
			found := 0
			for _, word := range query {
				for term := range times {
					if term == word || len([]rune(word)) >= minPrefix && strings.HasPrefix(term, word) {
						found++
						break
					}
				}
			}
			if want := found > 0 && (!all || found == len(query)); (hits[id] > 0) != want {
				r.Fatalf("%q finds %v in %v: not %t", query, hits, times, want)
			}
		}
		if s := x.Stats(); s.Documents != len(docs) || s.Terms != len(terms) || s.AverageLength != anew.Stats().AverageLength {
			r.Fatalf("%+v, made anew %+v", s, anew.Stats())
		}
	})
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// The estimated memory is accurate to a third, and neither texts nor removed documents are kept. Not
// parallel: the test measures the heap.
func TestMemory(t *testing.T) {
	for what, text := range map[string]func(n int) string{
		"elements": func(n int) string {
			return fmt.Sprintf("tool%d reads the notes of project %d and reports customer%d", n, n%97, n%1013)
		},
		"long": func(n int) string { return fmt.Sprintf("only%d ", n) + strings.Repeat("notes noted the same ", 100) },
	} {
		before := heap()
		x := New[int]()
		for n := range 2000 {
			put(x, n, text(n))
		}
		measured, estimated := heap()-before, x.Stats().Bytes
		if ratio := float64(estimated) / float64(measured); ratio < 0.67 || ratio > 1.5 {
			t.Errorf("%s: %d bytes, measured %d: %.2f", what, estimated, measured, ratio)
		}
		for n := range 8000 {
			put(x, n%2000, text(n))
		}
		if again := heap() - before; again > measured*3/2 {
			t.Errorf("%s: %d bytes after changes, %d before", what, again, measured)
		}
		runtime.KeepAlive(x)
	}
}

// Searches concurrent with puts and removals see complete documents.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	x := New[int]()
	for n := range 50 {
		put(x, n, "first steady")
	}
	var work sync.WaitGroup
	for w := range 2 {
		work.Go(func() {
			for i := range 300 {
				n := w*25 + i%25
				put(x, n, []string{"first steady", "second steady"}[i/25%2])
				put(x, 100+n, fmt.Sprintf("passing%d", i))
				x.Remove(100 + n)
			}
		})
	}
	for range 2 {
		work.Go(func() {
			for range 200 {
				if n := len(x.Search([]string{"stead"}, true)); n != 50 {
					t.Errorf("%d are steady", n)
				}
				if n := len(x.Search([]string{"first", "second"}, true)); n != 0 {
					t.Errorf("%d are both", n)
				}
				x.Stats()
			}
		})
	}
	work.Wait()
}
