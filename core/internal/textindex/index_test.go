package textindex

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ids returns the ids of hits, in order.
func ids[ID int | string](hits []Hit[ID]) (all []ID) {
	for _, h := range hits {
		all = append(all, h.ID)
	}
	return all
}

// BM25 as defined in the package documentation, computed by hand
// for three documents of 4, 2 and 6 words (average 4), where "b" counts 3 in the
// title of the third:
//
//	idf(a), in 2 of 3:  ln(1 + 1.5/2.5) = 0.470003629
//	idf(b), in 1 of 3:  ln(1 + 2.5/1.5) = 0.980829253
//	a in 1: f 2, len/avg 1:    2·2.2/(2+1.2·1)     = 1.375 · idf(a) = 0.646254990
//	a in 2: f 1, len/avg 0.5:  2.2/(1+1.2·0.625)   = 1.257142857 · idf(a) = 0.590861705
//	b in 3: f 3, len/avg 1.5:  3·2.2/(3+1.2·1.375) = 1.419354839 · idf(b) = 1.392144746
func TestScores(t *testing.T) {
	t.Parallel()
	x := New[int](Options{})
	x.Put(3, Field{Text: "b", Weight: 3}, Field{Text: "x y z"})
	x.Put(1, Field{Text: "a a c d"})
	x.Put(2, Field{Text: "a e"})
	for query, want := range map[string][]Hit[int]{
		"a":     {{1, 0.646254990}, {2, 0.590861705}},
		"b":     {{3, 1.392144746}},
		"a b A": {{3, 1.392144746}, {1, 0.646254990}, {2, 0.590861705}},
	} {
		hits := x.Search(Query{Text: query})
		if !slices.Equal(ids(hits), ids(want)) {
			t.Fatalf("%s: %v, want %v", query, hits, want)
		}
		for i := range hits {
			if math.Abs(hits[i].Score-want[i].Score) > 1e-9 {
				t.Errorf("%s: %d has %.9f, want %.9f", query, hits[i].ID, hits[i].Score, want[i].Score)
			}
		}
	}
	if hits := x.Search(Query{Text: "a d", All: true}); !slices.Equal(ids(hits), []int{1}) {
		t.Errorf("all words: %v", hits)
	}
	for _, q := range []Query{{}, {Text: " … "}, {Text: "nothing"}, {Text: "a nothing", All: true}, {Text: "a b", All: true}} {
		if hits := x.Search(q); len(hits) != 0 {
			t.Errorf("%+v: %v", q, hits)
		}
	}
}

func TestOrderOfEquals(t *testing.T) {
	t.Parallel()
	x := New[string](Options{})
	for _, id := range []string{"c", "a", "d", "b"} {
		x.Put(id, Field{Text: "same words"})
	}
	x.Put("a", Field{Text: "same words"})
	if got := ids(x.Search(Query{Text: "words"})); !slices.Equal(got, []string{"a", "b", "c", "d"}) {
		t.Errorf("%q", got)
	}
}

// Results do not depend on history, although floating-point sums depend on their order.
func TestHistoryIndependence(t *testing.T) {
	t.Parallel()
	texts := corpus(200, 60)
	forward, backward := New[int](Options{}), New[int](Options{})
	for n := range texts {
		forward.Put(n, Field{Text: texts[n]})
		backward.Put(n, Field{Text: "word1 of another time"})
	}
	for n := range slices.Backward(texts) {
		backward.Put(n, Field{Text: texts[n]})
	}
	q := Query{Text: "word1 word2", Prefix: Prefix{Min: 3}}
	if a, b := forward.Search(q), backward.Search(q); len(a) < 100 || !slices.Equal(a, b) {
		t.Errorf("%v\n%v", a, b)
	}
}

func TestPrefix(t *testing.T) {
	t.Parallel()
	x := New[int](Options{})
	for n, text := range []string{"bread", "breadcrumb", "breakfast", "bret bread", "brot", "字典"} {
		x.Put(n, Field{Text: text})
	}
	for _, tt := range []struct {
		q    Query
		want []int
	}{
		{Query{Text: "bre"}, nil},
		{Query{Text: "bre", Prefix: Prefix{Min: 4}}, nil},
		{Query{Text: "bre", Prefix: Prefix{Min: 3}}, []int{3, 1, 2, 0}}, // two words; rare; rare; frequent
		{Query{Text: "bre", Prefix: Prefix{Min: 3, Most: 1}}, []int{0, 3}},
		{Query{Text: "bread", Prefix: Prefix{Min: 3, Weight: 0.01}}, []int{0, 3, 1}},
		{Query{Text: "bread", Prefix: Prefix{Min: 3, Unknown: true}}, []int{0, 3}},
		{Query{Text: "brea bret", All: true, Prefix: Prefix{Min: 3, Unknown: true}}, []int{3}},
		{Query{Text: "字", Prefix: Prefix{Min: 2}}, []int{5}},
	} {
		if got := ids(x.Search(tt.q)); !slices.Equal(got, tt.want) {
			t.Errorf("%+v: %v, want %v", tt.q, got, tt.want)
		}
	}
	x.Remove(1) // not swept yet
	if got := ids(x.Search(Query{Text: "breadc", Prefix: Prefix{Min: 1}})); len(got) != 0 {
		t.Errorf("%v", got)
	}
	for n := range 5000 { // enough that some terms are sorted and some are not
		x.Put(n, Field{Text: fmt.Sprintf("term%d", n)})
	}
	if len(x.sorted) == 0 || len(x.fresh) == 0 {
		t.Fatalf("%d and %d", len(x.sorted), len(x.fresh))
	}
	if n := len(x.Search(Query{Text: "term", Prefix: Prefix{Min: 3}})); n != 5000 {
		t.Errorf("found %d", n)
	}
	for n := range 4990 {
		x.Remove(n)
	}
	for n := range 5 { // put swept documents again
		x.Put(n, Field{Text: fmt.Sprintf("term%d", n)})
	}
	if n := x.Stats().Terms; len(x.sorted)+len(x.fresh) != n {
		t.Errorf("%d and %d of %d terms", len(x.sorted), len(x.fresh), n)
	}
	if got := ids(x.Search(Query{Text: "term", Prefix: Prefix{Min: 3}})); len(got) != 15 || got[0] != 0 || got[14] != 4999 {
		t.Errorf("found %v", got)
	}
}

func TestKeywords(t *testing.T) {
	t.Parallel()
	x := New[int](Options{Term: English})
	put := func(id int, text, other string) {
		x.Put(id, Field{Text: text, Weight: 3, Keywords: true}, Field{Text: other})
	}
	want := func(n int, want ...Keyword) {
		t.Helper()
		if got := x.Keywords(n); !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
	}
	want(5)
	put(1, "notes notes note the 42", "hidden")
	put(2, "Note", "hidden")
	put(3, "ticket 42", "notes notes notes notes")
	want(5, Keyword{"note", 2}, Keyword{"ticket", 1}) // two of each form: the first in order
	put(4, "notes", "")
	want(1, Keyword{"notes", 3})
	x.Remove(1)
	want(5, Keyword{"note", 2}, Keyword{"ticket", 1})
	want(0)
	want(-1)
}

func TestBounds(t *testing.T) {
	t.Parallel()
	x := New[int](Options{MaxText: 9, MaxWords: 3, MaxDocuments: 2, MaxVocabulary: 4})
	found := func(text string, want ...int) {
		t.Helper()
		if got := ids(x.Search(Query{Text: text})); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
	x.Put(1, Field{Text: "a cc dddddd"}, Field{Text: "x a a y"}) // truncated after "dddd", and to three words
	found("a cc", 1)
	found("dddd", 1)
	found("dddddd")
	found("x")
	found("y")
	x.Put(2, Field{Text: "d e a"}) // the vocabulary has room for one
	found("d", 2)
	found("e")
	found("a", 1, 2)
	if s := x.Stats(); s.Terms != 4 || s.Postings != 5 || s.AverageLength != 4 {
		t.Errorf("%+v", s)
	}
	if x.Put(3, Field{Text: "a"}) {
		t.Error("there was room for a third document")
	}
	if !x.Put(2, Field{Text: "b"}) || !x.Remove(1) || !x.Put(3, Field{Text: "b"}) {
		t.Error("there was no room in place of another")
	}
	found("b", 2, 3)
	found("a")
	long := strings.Repeat("many ", 1000)
	x = New[int](Options{})
	x.Put(1, Field{Text: long, Weight: 1000})
	x.Put(2, Field{Text: "few"})
	found("many", 1) // its frequency exceeds the bits of a posting
	found("few", 2)
	if s := x.Stats(); s.AverageLength != 127_500.5 || s.Postings != 2 {
		t.Errorf("%+v", s)
	}
	if New[int](Options{MaxDocuments: math.MaxInt}).opts.MaxDocuments*4/3 >= 1<<24 {
		t.Error("documents that no posting can name")
	}
}

// corpus returns n texts whose word frequencies resemble a natural language.
func corpus(n, words int) []string {
	r := rand.New(rand.NewPCG(1, 2))
	texts := make([]string, n)
	for i := range texts {
		var s strings.Builder
		fmt.Fprintf(&s, "Note%d ", i)
		for range words {
			fmt.Fprintf(&s, "word%d ", int(r.ExpFloat64()*800))
		}
		texts[i] = s.String()
	}
	return texts
}

func heap() int {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}

// The memory estimate is accurate to a third. Not parallel: the test measures the heap.
func TestBytes(t *testing.T) {
	if n := New[int](Options{}).Stats().Bytes; n != 0 {
		t.Errorf("an empty index has %d bytes", n)
	}
	for what, tt := range map[string]struct {
		opts           Options
		documents, len int
		keywords       bool
	}{
		"notes":    {Options{}, 500, 250, false},
		"elements": {Options{Term: English, Identifiers: true}, 5000, 12, true},
		"rare":     {Options{}, 20_000, 0, false},
	} {
		texts := corpus(tt.documents, tt.len)
		before := heap()
		x := New[int](tt.opts)
		for i, text := range texts {
			x.Put(i, Field{Text: text, Keywords: tt.keywords})
		}
		measured, estimated := heap()-before, x.Stats().Bytes
		if ratio := float64(estimated) / float64(measured); ratio < 0.67 || ratio > 1.5 {
			t.Errorf("%s: %d bytes, measured %d: %.2f", what, estimated, measured, ratio)
		}
		t.Logf("%s: %d bytes, measured %d", what, estimated, measured)
		full := x.Stats()
		for i := range texts {
			if i%10 != 0 {
				x.Remove(i)
			}
		}
		if s := x.Stats(); s.Postings > full.Postings/5 || s.Bytes > full.Bytes/2 {
			t.Errorf("%s: %+v after most was removed, %+v before", what, s, full)
		}
		if left := heap() - before; left > measured*2/3 {
			t.Errorf("%s: %d bytes are kept after most was removed, %d before", what, left, measured)
		}
		runtime.KeepAlive(texts)
		runtime.KeepAlive(x)
	}
}

// A word of the index must not keep its original text in memory.
func TestTextsAreNotRetained(t *testing.T) {
	for what, opts := range map[string]Options{"as written": {}, "English": {Term: English}} {
		before := heap()
		x := New[int](opts)
		for n := range 200 {
			text := fmt.Sprintf("only%d ", n) + strings.Repeat("notes noted the same ", 3000)
			x.Put(n, Field{Text: text, Keywords: true})
		}
		if kept := heap() - before; kept > 1<<20 {
			t.Errorf("%s: %d bytes are kept of 200 texts of 60 KB", what, kept)
		}
		runtime.KeepAlive(x)
	}
}

// Searches concurrent with puts and removals see complete documents.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	x := New[int](Options{Term: English})
	for n := range 50 {
		x.Put(n, Field{Text: "first steady", Keywords: true})
	}
	var work sync.WaitGroup
	for w := range 2 {
		work.Go(func() {
			for i := range 300 {
				n := w*25 + i%25
				x.Put(n, Field{Text: []string{"first steady", "second steady"}[i/25%2], Keywords: true})
				if i%5 == 0 {
					x.Put(100+n, Field{Text: fmt.Sprintf("passing%d", i)})
					x.Remove(100 + n)
				}
			}
		})
	}
	for range 4 {
		work.Go(func() {
			for range 200 {
				if n := len(x.Search(Query{Text: "steadi", Prefix: Prefix{Min: 3}})); n != 50 {
					t.Errorf("%d are steady", n)
				}
				if n := len(x.Search(Query{Text: "first second", All: true})); n != 0 {
					t.Errorf("%d are both", n)
				}
				if k := x.Keywords(100); !slices.Contains(k, Keyword{"steady", 50}) {
					t.Errorf("%v", k)
				}
				x.Stats()
			}
		})
	}
	work.Wait()
}
