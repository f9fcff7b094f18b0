package subscriptions_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
)

func open(t *testing.T, m *subscriptions.Manager, lists subscriptions.Lists, uris ...string) *subscriptions.Subscriber {
	t.Helper()
	s, err := m.Open("", lists)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	for _, uri := range uris {
		if err := s.Add(uri); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	var asked []string
	m := subscriptions.New(subscriptions.Options{
		Subscribable: func(uri string) bool {
			asked = append(asked, uri)
			return strings.HasPrefix(uri, "v://")
		},
		MaxURIs:        2,
		MaxURIBytes:    20,
		MaxSubscribers: 2,
		MaxTotal:       3,
	})
	a := open(t, m, subscriptions.Lists{}, "v://1")
	refused := a.Add("x://1")
	b := open(t, m, subscriptions.Lists{}, "v://1")
	if err := a.Add("v://2"); err != nil {
		t.Error(err)
	}
	for _, c := range []struct {
		err  error
		want error
		text string
	}{
		{a.Add(""), subscriptions.ErrEmptyURI, "Resource URI cannot be empty"},
		{refused, subscriptions.ErrUnavailable, "Resource x://1 is not subscribable"},
		{a.Add("v://" + strings.Repeat("1", 20)), subscriptions.ErrUnavailable, "exceeds 20 bytes"},
		{a.Add("v://3"), subscriptions.ErrTooMany, "at most 2 resources"},
		{b.Add("v://3"), subscriptions.ErrTooMany, "limit of 3"},
	} {
		if !errors.Is(c.err, c.want) || !strings.Contains(c.err.Error(), c.text) {
			t.Errorf("got %v, want %v with %q", c.err, c.want, c.text)
		}
	}
	if err := a.Add("v://1"); err != nil {
		t.Errorf("the same again: %v", err)
	}
	// Not of what is there already, nor of what there is no room for.
	if diff := cmp.Diff([]string{"v://1", "x://1", "v://1", "v://2"}, asked); diff != "" {
		t.Errorf("asked of:\n%s", diff)
	}
	if _, err := m.Open("", subscriptions.Lists{}); !errors.Is(err, subscriptions.ErrTooMany) {
		t.Errorf("a third subscriber: %v", err)
	}
	a.Close()
	if err := a.Add("v://1"); !errors.Is(err, subscriptions.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if diff := cmp.Diff(subscriptions.Stats{Subscribers: 1, Subscriptions: 1, URIs: 1}, m.Stats()); diff != "" {
		t.Error(diff)
	}
}

func TestListChangesReachOnlyTheirSubscribers(t *testing.T) {
	t.Parallel()
	m := subscriptions.New(subscriptions.Options{})
	tools, none := open(t, m, subscriptions.Lists{Tools: true}), open(t, m, subscriptions.Lists{})
	m.ListChanged(subscriptions.Lists{Tools: true, Prompts: true})
	if got := tools.Take(); got.Lists != (subscriptions.Lists{Tools: true}) {
		t.Errorf("%+v", got)
	}
	if got := none.Take(); !got.Empty() {
		t.Errorf("%+v", got)
	}
	select {
	case <-none.C():
		t.Error("woken for nothing")
	default:
	}
}

func TestRestoreKeepsWhatWasNotSent(t *testing.T) {
	t.Parallel()
	m := subscriptions.New(subscriptions.Options{})
	s := open(t, m, subscriptions.Lists{}, "a", "b")
	m.Updated("a", "b")
	<-s.C()
	taken := s.Take()
	s.Remove("a")
	m.Updated("b")
	s.Restore(taken)
	<-s.C()
	if diff := cmp.Diff([]string{"b"}, s.Take().URIs); diff != "" {
		t.Error(diff)
	}
}

// A manager with several subscribers behaves like a simple model of it: a set of subscribed URIs
// and a list of dirty URIs for each subscriber.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		type model struct {
			s      *subscriptions.Subscriber
			wanted map[string]bool
			dirty  []string
		}
		m := subscriptions.New(subscriptions.Options{MaxURIs: 3})
		var all []*model
		uri := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		pick := func(t *rapid.T) *model {
			if len(all) == 0 {
				t.Skip("nobody")
			}
			return rapid.SampledFrom(all).Draw(t, "subscriber")
		}
		t.Repeat(map[string]func(*rapid.T){
			"open": func(t *rapid.T) {
				s, err := m.Open("", subscriptions.Lists{})
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, &model{s: s, wanted: map[string]bool{}})
			},
			"add": func(t *rapid.T) {
				s, u := pick(t), uri.Draw(t, "uri")
				full := len(s.wanted) == 3 && !s.wanted[u]
				if err := s.s.Add(u); (err != nil) != full {
					t.Fatalf("add %s to %v: %v", u, s.wanted, err)
				}
				if !full {
					s.wanted[u] = true
				}
			},
			"remove": func(t *rapid.T) {
				s, u := pick(t), uri.Draw(t, "uri")
				s.s.Remove(u)
				delete(s.wanted, u)
				s.dirty = slices.DeleteFunc(s.dirty, func(d string) bool { return d == u })
			},
			"update": func(t *rapid.T) {
				u := uri.Draw(t, "uri")
				m.Updated(u)
				for _, s := range all {
					if s.wanted[u] && !slices.Contains(s.dirty, u) {
						s.dirty = append(s.dirty, u)
					}
				}
			},
			"take": func(t *rapid.T) {
				s := pick(t)
				if diff := cmp.Diff(s.dirty, s.s.Take().URIs, cmp.Transformer("len", func(v []string) string { return fmt.Sprint(v) })); diff != "" {
					t.Fatal(diff)
				}
				s.dirty = nil
			},
			"close": func(t *rapid.T) {
				s := pick(t)
				s.s.Close()
				all = slices.DeleteFunc(all, func(o *model) bool { return o == s })
			},
			"": func(t *rapid.T) {
				want, different := subscriptions.Stats{Subscribers: len(all)}, map[string]bool{}
				for _, s := range all {
					want.Subscriptions += len(s.wanted)
					for u := range s.wanted {
						different[u] = true
					}
				}
				want.URIs = len(different)
				if diff := cmp.Diff(want, m.Stats()); diff != "" {
					t.Fatal(diff)
				}
			},
		})
	})
}

// In any interleaving, a sender that reads the value after each Take ends up with the last one.
func TestLastChangeIsNeverLost(t *testing.T) {
	t.Parallel()
	m := subscriptions.New(subscriptions.Options{})
	s := open(t, m, subscriptions.Lists{}, "a")
	var mu sync.Mutex
	var value, seen int
	const last = 20_000
	var wg sync.WaitGroup
	wg.Go(func() {
		for range last {
			mu.Lock()
			value++
			mu.Unlock()
			m.Updated("a")
		}
	})
	takes := 0
	for seen < last {
		<-s.C()
		if s.Take().Empty() {
			continue
		}
		takes++
		mu.Lock()
		seen = value
		mu.Unlock()
	}
	wg.Wait()
	if takes > last {
		t.Errorf("%d takes for %d changes", takes, last)
	}
}

// Subscriptions to other URIs do not make an update more expensive.
func BenchmarkUpdated(b *testing.B) {
	for _, others := range []int{0, 100_000} {
		b.Run(fmt.Sprintf("others=%d", others), func(b *testing.B) {
			m := subscriptions.New(subscriptions.Options{MaxURIs: 1 << 20})
			s, _ := m.Open("", subscriptions.Lists{})
			_ = s.Add("a")
			o, _ := m.Open("", subscriptions.Lists{})
			for i := range others {
				_ = o.Add(fmt.Sprint("o", i))
			}
			for b.Loop() {
				m.Updated("a")
			}
		})
	}
}
