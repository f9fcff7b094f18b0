package capindex

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// There are exactly three documents with their types, or the configured documents; an unknown
// name is an error, and a document that is not exposed is not found.
func TestExpose(t *testing.T) {
	x := newIndex(t, Options{})
	var got []string
	for _, raw := range x.Resources() {
		var r struct{ URI, Name, Title, Description, MimeType string }
		if err := json.Unmarshal(raw, &r); err != nil || r.Name == "" || r.Title == "" || r.Description == "" {
			t.Errorf("%s: %v", raw, err)
		}
		got = append(got, r.URI+" "+r.MimeType)
		if d, err := x.Read(t.Context(), r.URI); err != nil || d.MimeType != r.MimeType || d.URI != r.URI {
			t.Errorf("%s: %+v, %v", r.URI, d, err)
		}
	}
	want := []string{"capability-index://summary text/markdown", "capability-index://full text/markdown", "capability-index://stats application/json"}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	x = newIndex(t, Options{Expose: []string{"stats", "summary", "stats"}})
	if uris := urisOf(x); !slices.Equal(uris, []string{scheme + "summary", scheme + "stats"}) {
		t.Errorf("%q", uris)
	}
	if text := x.mustRead(t, "summary").Text; strings.Contains(text, scheme+"full") {
		t.Errorf("names what is not exposed:\n%s", text)
	}
	for _, uri := range []string{scheme + "full", scheme + "nope", scheme, "summary", "", "capability-index:///summary", scheme + "summary?x"} {
		if _, err := x.Read(t.Context(), uri); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", uri, err)
		}
	}
	for _, name := range []string{"", "Summary", scheme + "summary", "nope\x1b"} {
		if _, err := New(Options{Expose: []string{"stats", name}}); err == nil || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("%q: %v", name, err)
		}
	}
	if _, err := New(Options{TTL: -1}); err == nil {
		t.Error("a negative TTL")
	}
}

// An idle index has no goroutine and does not call the source.
func TestIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		before := runtime.NumGoroutine()
		s := &fakeSource{}
		x := newIndex(t, Options{Source: s.load})
		time.Sleep(time.Hour)
		x.mustRead(t, "stats")
		synctest.Wait()
		// Fewer are possible: goroutines of the previous test may still have been ending.
		if n := runtime.NumGoroutine(); n > before || s.asked.Load() != 1 {
			t.Errorf("%d goroutines, %d before; asked %d times", n, before, s.asked.Load())
		}
	})
}

// Concurrent first readers of any document share one generation; within the TTL the bytes are
// identical, after it they are generated again.
func TestOneGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSource{snapshot: oneTool(t, "a"), delay: time.Second}
		x := newIndex(t, Options{Source: s.load})
		read := func() map[string]string {
			var mu sync.Mutex
			texts := map[string]string{}
			var readers sync.WaitGroup
			for i := range 100 {
				readers.Go(func() {
					name := Names()[i%3]
					d := x.mustRead(t, name)
					mu.Lock()
					defer mu.Unlock()
					if before, ok := texts[name]; ok && before != d.Text {
						t.Errorf("two texts of %s", name)
					}
					texts[name] = d.Text
				})
			}
			readers.Wait()
			return texts
		}
		first := read()
		if n := s.asked.Load(); n != 1 {
			t.Fatalf("%d generations", n)
		}
		d := x.mustRead(t, "full")
		if d.TTL() != DefaultTTL || !d.Generated.Equal(time.Now()) {
			t.Errorf("TTL %s, generated %s", d.TTL(), d.Generated)
		}
		time.Sleep(DefaultTTL - time.Second)
		if again := read(); s.asked.Load() != 1 || again["summary"] != first["summary"] || again["stats"] != first["stats"] {
			t.Errorf("made anew within the TTL: %d", s.asked.Load())
		}
		if d = x.mustRead(t, "full"); d.TTL() != time.Second {
			t.Errorf("TTL %s a second before the end", d.TTL())
		}
		time.Sleep(time.Second)
		later := read()
		if s.asked.Load() != 2 || later["summary"] == first["summary"] || d.TTL() != 0 {
			t.Errorf("not made anew after the TTL: %d", s.asked.Load())
		}
	})
}

// Documents generated again from the same data differ only in the time, and are not reported as
// changed.
func TestSameDataSameBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := sampleView(t)
		s := &fakeSource{snapshot: v}
		x := newIndex(t, Options{Source: s.load})
		first := map[string]Document{}
		for _, name := range Names() {
			first[name] = x.mustRead(t, name)
		}
		for range 20 {
			time.Sleep(DefaultTTL)
			slices.Reverse(v.Servers) // the order of servers is irrelevant
			s.set(Capabilities{slices.Clone(v.Servers)})
			for _, name := range Names() {
				d, before := x.mustRead(t, name), first[name]
				stamp, old := d.Generated.UTC().Format(time.RFC3339), before.Generated.UTC().Format(time.RFC3339)
				if stamp == old || strings.Count(d.Text, stamp) != 1 {
					t.Fatalf("%s has no time of its own", name)
				}
				if d.Digest != before.Digest || strings.Replace(d.Text, stamp, old, 1) != before.Text {
					t.Errorf("%s differs:\n%s\n%s", name, before.Text, d.Text)
				}
			}
			if changed, err := x.Changed(t.Context()); err != nil || len(changed) != 0 {
				t.Errorf("changed %q, %v", changed, err)
			}
		}
	})
}

// A read after Invalidate never returns the old state, not even from a generation in progress;
// Changed returns each difference once.
func TestInvalidate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSource{snapshot: oneTool(t, "old"), delay: time.Second}
		x := newIndex(t, Options{Source: s.load})
		early := make(chan string, 1)
		go func() { early <- x.mustRead(t, "full").Text }()
		time.Sleep(500 * time.Millisecond)
		s.set(oneTool(t, "new"))
		x.Invalidate()
		go func() {
			time.Sleep(700 * time.Millisecond) // the older generation is complete, the newer is not
			early <- x.mustRead(t, "full").Text
		}()
		if text := x.mustRead(t, "full").Text; !strings.Contains(text, "`new`") || s.asked.Load() != 2 {
			t.Errorf("after Invalidate, generation %d:\n%s", s.asked.Load(), text)
		}
		<-early
		if text := <-early; !strings.Contains(text, "`new`") {
			t.Errorf("an outdated generation was read:\n%s", text)
		}
		if text := x.mustRead(t, "full").Text; !strings.Contains(text, "`new`") || s.asked.Load() != 2 {
			t.Errorf("the older generation was kept, %d:\n%s", s.asked.Load(), text)
		}
		wantChanged := func(want ...string) {
			t.Helper()
			got, err := x.Changed(t.Context())
			if err != nil || !slices.Equal(got, want) {
				t.Errorf("changed %q, %v, want %q", got, err, want)
			}
		}
		_, _ = x.Changed(t.Context())
		wantChanged()
		s.set(oneTool(t, "newer"))
		wantChanged(scheme+"summary", scheme+"full")
		wantChanged()
		s.set(Capabilities{})
		wantChanged(urisOf(x)...)
		// A reader that saw a state in between must be notified, though the first state is back.
		s.set(oneTool(t, "a"))
		time.Sleep(DefaultTTL)
		x.mustRead(t, "stats")
		s.set(Capabilities{})
		wantChanged(urisOf(x)...)
	})
}

// If Changed causes the first generation, all subscribers are notified.
func TestChangedBeforeAnyRead(t *testing.T) {
	x := newIndex(t, Options{Expose: []string{"stats"}})
	if got, err := x.Changed(t.Context()); err != nil || !slices.Equal(got, urisOf(x)) {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := x.Changed(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("%q, %v", got, err)
	}
}

// A reader that gives up waits no longer for the generation of another.
func TestReaderLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeSource{delay: time.Second}
		x := newIndex(t, Options{Source: s.load})
		first := make(chan Document, 1)
		go func() { first <- x.mustRead(t, "stats") }()
		time.Sleep(100 * time.Millisecond)
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		cancel(enough)
		if _, err := x.Read(ctx, scheme+"stats"); !errors.Is(err, enough) || s.asked.Load() != 1 {
			t.Errorf("%v, after %d generations", err, s.asked.Load())
		}
		<-first
	})
}

// Every document belongs to one snapshot, whatever changes while readers and searchers run.
func TestReadersAndChanges(t *testing.T) {
	views := make([]Capabilities, 8)
	for i := range views {
		var tools []string
		for j := range 20 {
			tools = append(tools, fmt.Sprintf(`{"name":"tool%d","description":"generation%d"}`, j, i))
		}
		views[i] = Capabilities{[]ServerCapabilities{{ID: "docs", Lists: map[catalog.Kind]catalog.List{catalog.Tools: list(t, catalog.Tools, tools...)}}}}
	}
	s := &fakeSource{snapshot: views[0]}
	x := newIndex(t, Options{Source: s.load})
	var work sync.WaitGroup
	for i := range 10 {
		work.Go(func() {
			for range 50 {
				text := x.mustRead(t, "full").Text
				_, after, _ := strings.Cut(text, "generation")
				if n := strings.Count(text, "generation"+after[:1]+"\n"); n != 20 {
					t.Errorf("%d of 20 tools of one generation", n)
				}
				if i == 0 {
					if _, err := x.Search(t.Context(), json.RawMessage(`{"query":"tool3"}`)); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	for i := range 50 {
		s.set(views[i%len(views)])
		if i%2 == 0 {
			x.Invalidate()
		} else if _, err := x.Changed(t.Context()); err != nil {
			t.Error(err)
		}
	}
	work.Wait()
	x.Invalidate()
	if text := x.mustRead(t, "full").Text; !strings.Contains(text, fmt.Sprintf("generation%d\n", 49%len(views))) {
		t.Errorf("the last snapshot is not shown:\n%s", text)
	}
}

// urisOf returns the URIs of the exposed documents.
func urisOf(x *Index) (uris []string) {
	for _, raw := range x.Resources() {
		var r struct{ URI string }
		_ = json.Unmarshal(raw, &r)
		uris = append(uris, r.URI)
	}
	return uris
}
