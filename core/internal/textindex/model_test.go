package textindex

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// model is an index that scans all documents for every query.
type model struct {
	opts Options
	docs map[int][]Field
}

func (m *model) term(word string) string {
	if m.opts.Term == nil {
		return word
	}
	return m.opts.Term(word)
}

// words calls f with each word of each document.
func (m *model) words(f func(id int, word, term string, field Field)) {
	for id, fields := range m.docs {
		for _, field := range fields {
			for word := range m.opts.Words(field.Text) {
				if term := m.term(word); term != "" {
					f(id, word, term, field)
				}
			}
		}
	}
}

// counts returns the frequency of each term in each document, the lengths of documents,
// and the number of documents with each term.
func (m *model) counts() (has map[int]map[string]float64, lengths map[int]float64, documents map[string]int) {
	has, lengths, documents = map[int]map[string]float64{}, map[int]float64{}, map[string]int{}
	m.words(func(id int, _, term string, field Field) {
		weight := float64(max(1, field.Weight))
		if has[id] == nil {
			has[id] = map[string]float64{}
		}
		if has[id][term] == 0 {
			documents[term]++
		}
		has[id][term] += weight
		lengths[id] += weight
	})
	return has, lengths, documents
}

func (m *model) search(q Query) map[int]float64 {
	has, lengths, documents := m.counts()
	var total float64
	for _, n := range lengths {
		total += n
	}
	average := total / float64(len(m.docs))
	score := func(id int, term string) float64 {
		f := has[id][term]
		n, all := float64(documents[term]), float64(len(m.docs))
		idf := math.Log(1 + (all-n+0.5)/(n+0.5))
		return idf * f * 2.2 / (f + 1.2*(0.25+0.75*lengths[id]/average))
	}
	found, matched, wanted := map[int]float64{}, map[int]int{}, map[string]bool{}
	for word := range m.opts.Words(q.Text) {
		term := m.term(word)
		if term == "" || wanted[term] {
			continue
		}
		wanted[term] = true
		var longer []string
		if q.Prefix.Min > 0 && utf8.RuneCountInString(term) >= q.Prefix.Min && (documents[term] == 0 || !q.Prefix.Unknown) {
			for t := range documents {
				if t != term && strings.HasPrefix(t, term) {
					longer = append(longer, t)
				}
			}
			slices.SortFunc(longer, func(a, b string) int {
				return cmp.Or(cmp.Compare(documents[b], documents[a]), cmp.Compare(a, b))
			})
			if q.Prefix.Most > 0 {
				longer = longer[:min(len(longer), q.Prefix.Most)]
			}
		}
		for id := range m.docs {
			sum := 0.0
			if has[id][term] > 0 {
				sum = score(id, term)
			}
			for _, t := range longer {
				if has[id][t] > 0 {
					sum += cmp.Or(q.Prefix.Weight, 0.5) * score(id, t)
				}
			}
			if sum > 0 {
				found[id] += sum
				matched[id]++
			}
		}
	}
	for id := range found {
		if q.All && matched[id] < len(wanted) {
			delete(found, id)
		}
	}
	return found
}

func (m *model) keywords(n int) []Keyword {
	docs, forms := map[string]map[int]bool{}, map[string]map[string]int{}
	m.words(func(id int, word, term string, field Field) {
		if !field.Keywords || strings.Trim(word, "0123456789") == "" {
			return
		}
		if docs[term] == nil {
			docs[term], forms[term] = map[int]bool{}, map[string]int{}
		}
		docs[term][id] = true
		forms[term][word]++
	})
	var all []Keyword
	for term, ids := range docs {
		words := []string{}
		for word := range forms[term] {
			words = append(words, word)
		}
		slices.SortFunc(words, func(a, b string) int {
			return cmp.Or(cmp.Compare(forms[term][b], forms[term][a]), cmp.Compare(a, b))
		})
		all = append(all, Keyword{words[0], len(ids)})
	}
	slices.SortFunc(all, func(a, b Keyword) int {
		return cmp.Or(cmp.Compare(b.Documents, a.Documents), cmp.Compare(a.Word, b.Word))
	})
	return all[:min(len(all), n)]
}

// After any puts and removals, the index finds what a scan of all documents finds, and equals an
// index of only the remaining documents.
func TestModel(t *testing.T) {
	t.Parallel()
	vocabulary := []string{"note", "notes", "noted", "notebook", "Read", "reading", "the", "write_note", "writeNote", "字", "42", "nothing"}
	text := rapid.Map(rapid.SliceOfN(rapid.SampledFrom(vocabulary), 0, 8), func(w []string) string { return strings.Join(w, " ") })
	fields := rapid.SliceOfN(rapid.Custom(func(r *rapid.T) Field {
		return Field{text.Draw(r, "text"), rapid.IntRange(0, 5).Draw(r, "weight"), rapid.Bool().Draw(r, "keywords")}
	}), 0, 3)
	rapid.Check(t, func(r *rapid.T) {
		m := model{docs: map[int][]Field{}}
		if rapid.Bool().Draw(r, "english") {
			m.opts = Options{Term: English, Identifiers: true}
		}
		x := New[int](m.opts)
		ids := rapid.IntRange(0, 12)
		r.Repeat(map[string]func(*rapid.T){
			"put": func(r *rapid.T) {
				id, f := ids.Draw(r, "id"), fields.Draw(r, "fields")
				if m.docs[id] = f; !x.Put(id, f...) {
					r.Fatal("no room")
				}
			},
			"remove": func(r *rapid.T) {
				id := ids.Draw(r, "id")
				_, known := m.docs[id]
				if delete(m.docs, id); x.Remove(id) != known {
					r.Fatalf("removed: not %t", known)
				}
			},
			"": func(r *rapid.T) {
				anew := New[int](m.opts)
				for id, f := range m.docs {
					anew.Put(id, f...)
				}
				q := Query{Text: text.Draw(r, "query"), All: rapid.Bool().Draw(r, "all")}
				if rapid.Bool().Draw(r, "prefixes") {
					q.Prefix = Prefix{rapid.IntRange(1, 5).Draw(r, "min"), rapid.Bool().Draw(r, "unknown"),
						rapid.SampledFrom([]float64{0, 0.2}).Draw(r, "weight"), rapid.IntRange(0, 2).Draw(r, "most")}
				}
				hits, want := x.Search(q), m.search(q)
				if len(hits) != len(want) {
					r.Fatalf("%+v: %v, want %v", q, hits, want)
				}
				for i, h := range hits {
					if math.Abs(h.Score-want[h.ID]) > 1e-9 || h.Score <= 0 {
						r.Fatalf("%+v: %d has %v, want %v", q, h.ID, h.Score, want[h.ID])
					}
					if i > 0 && cmp.Or(cmp.Compare(h.Score, hits[i-1].Score), cmp.Compare(hits[i-1].ID, h.ID)) >= 0 {
						r.Fatalf("not in order: %v", hits)
					}
				}
				if other := anew.Search(q); !slices.Equal(hits, other) {
					r.Fatalf("%v, made anew %v", hits, other)
				}
				if k := x.Keywords(5); !slices.Equal(k, m.keywords(5)) || !slices.Equal(k, anew.Keywords(5)) {
					r.Fatalf("keywords %v, want %v, made anew %v", k, m.keywords(5), anew.Keywords(5))
				}
				s, other := x.Stats(), anew.Stats()
				if s.Documents != len(m.docs) || s.AverageLength != other.AverageLength || s.Terms < other.Terms || s.Postings < other.Postings {
					r.Fatalf("%+v, made anew %+v", s, other)
				}
				if len(x.sorted)+len(x.fresh) != s.Terms {
					r.Fatalf("%d and %d of %d terms", len(x.sorted), len(x.fresh), s.Terms)
				}
				if x.dead*4 > len(x.docs) || len(x.docs)-x.dead != len(m.docs) || x.dead == 0 && (s.Terms != other.Terms || s.Postings != other.Postings) {
					r.Fatalf("%d of %d dead, %+v, made anew %+v", x.dead, len(x.docs), s, other)
				}
			},
		})
	})
}
