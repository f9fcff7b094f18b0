package journaltest

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/history"
	"github.com/mcptrack/mcptrack/core/journal"
)

func textDigest(text string) catalog.Digest { return sha256.Sum256([]byte(text)) }

// put stores texts one at a time, so that none is dropped because the queue is full.
func put(t tb, log journal.Log, texts ...string) {
	t.Helper()
	for _, text := range texts {
		log.Contents().Put(textDigest(text), text)
		flush(t, log)
	}
}

// has reports whether the text is stored. It fails the test if a different text is stored under its
// digest.
func has(t tb, log journal.Log, text string) bool {
	t.Helper()
	d := textDigest(text)
	got, ok, err := log.Contents().Get(within(t), d)
	if err != nil || ok && got != text {
		t.Fatalf("Get of %.20q: %.20q, %v", text, got, err)
	}
	stored, err := log.Contents().Stored(within(t), []catalog.Digest{d})
	if err != nil || stored[d] != ok {
		t.Fatalf("%.20q: Get says %v, Stored says %v, %v", text, ok, stored[d], err)
	}
	return ok
}

func contents(t *testing.T, o *Opened) {
	texts := []string{"one", "two", "", "a\x00b\r\n\xff\U0001F600", strings.Repeat("large ", 50_000)}
	put(t, o.Log, texts...)
	put(t, o.Log, "one") // storing a text twice has no effect
	o.Log.Contents().Put(catalog.Digest{}, "the content is not known")
	flush(t, o.Log)
	o.check(t, func(t *testing.T, when string) {
		for _, text := range texts {
			if !has(t, o.Log, text) {
				t.Errorf("%s: %.20q is not stored", when, text)
			}
		}
		if has(t, o.Log, "three") {
			t.Errorf("%s: a text that was never put is stored", when)
		}
		asked := []catalog.Digest{textDigest("one"), textDigest("three"), {}, textDigest("two"), textDigest("one")}
		want := map[catalog.Digest]bool{textDigest("one"): true, textDigest("two"): true}
		if got, err := o.Log.Contents().Stored(within(t), asked); err != nil || !maps.Equal(got, want) {
			t.Errorf("%s: Stored: %v, %v, want %v", when, got, err, want)
		}
		if got, err := o.Log.Contents().Stored(within(t), nil); err != nil || len(got) != 0 {
			t.Errorf("%s: Stored of nothing: %v, %v", when, got, err)
		}
		if _, ok, err := o.Log.Contents().Get(within(t), catalog.Digest{}); ok || err != nil {
			t.Errorf("%s: Get of the zero digest: %v, %v", when, ok, err)
		}
		if n := o.Log.Contents().Dropped(); n != 0 {
			t.Errorf("%s: %d texts were dropped", when, n)
		}
	})
}

// Definitions are stored as a tracker's recorder does it, and their versions can be read: the versions
// of a change, versions that no event reports, and the instructions.
func definitions(t *testing.T, o *Opened) {
	tool := func(name, description string) catalog.Item {
		it, err := catalog.NewItem(catalog.Tools, fmt.Appendf(nil, `{"name":%q, "description":%q}`, name, description))
		must(t, err)
		return it
	}
	store := func(items ...catalog.Item) catalog.List {
		for _, it := range items {
			o.Log.Contents().Put(it.Digest, string(it.Raw))
		}
		return catalog.NewList(items)
	}
	first, second := store(tool("search", "Finds."), tool("stays", "")), store(tool("search", "Finds notes."), tool("stays", ""))
	definition, digest := catalog.Text("Be kind.")
	o.Log.Contents().Put(digest, definition)
	must(t, o.Log.RememberList(journal.ListName{ServerID: "docs", Kind: catalog.Tools}, first))
	must(t, o.Log.RememberList(journal.ListName{ServerID: "docs", Kind: journal.Instructions}, journal.InstructionsList(digest)))
	delta := catalog.Diff(first, second)
	add(t, o.Log, about("docs", "", event.ServerState{State: event.Ready, Instructions: definition, InstructionsDigest: digest}),
		about("docs", "", event.SubscriptionActive{Tools: 2}),
		about("docs", "file:///search", event.ResourceAdded{}),
		about("docs", "", event.ListChanged{List: catalog.Tools, Changed: delta.Changed, Versions: catalog.ItemVersions(first, second, delta), Items: &second, Before: first}))
	flush(t, o.Log)
	o.check(t, func(t *testing.T, when string) {
		known := states(t, o.Log, "docs")
		for name, want := range map[string]string{"tool:search": "0 true, 4 true wording", "tool:stays": "0 true", "instructions": "1 true", "tool:none": ""} {
			it, _ := history.ParseItem(name)
			versions, err := history.Log{Select: o.Log.Select, Contents: o.Log.Contents()}.Definition(within(t), "docs", it, history.Current(known, "docs", it), 10)
			must(t, err)
			var got []string
			for _, v := range versions {
				_, seq, _ := event.ParseID(v.ID)
				parts := []string{fmt.Sprint(seq, " ", v.Text)}
				for _, c := range v.Classes {
					parts = append(parts, c.Name)
				}
				got = append(got, strings.Join(parts, " "))
			}
			equal(t, when+": versions of "+name, want, strings.Join(got, ", "))
		}
	})
}

// randomTexts returns n texts that cannot be compressed.
func randomTexts(n, size int) (texts []string) {
	source := rand.NewChaCha8([32]byte{1})
	for range n {
		b := make([]byte, size)
		_, _ = source.Read(b)
		texts = append(texts, string(b))
	}
	return texts
}

func contentsAreBounded(t *testing.T, o *Opened) {
	const keep, size = 1 << 20, 64 << 10
	texts := randomTexts(40, size)
	put(t, o.Log, texts...)
	o.check(t, func(t *testing.T, when string) {
		var there []bool
		for _, text := range texts {
			there = append(there, has(t, o.Log, text))
		}
		first := slices.Index(there, true)
		if first < len(texts)-keep/size || slices.Contains(there[max(first, 0):], false) {
			t.Errorf("%s: of texts with the double size of the bound, these are stored: %v", when, there)
		}
	})
	put(t, o.Log, texts[0]) // can be stored again after it was removed
	if !has(t, o.Log, texts[0]) {
		t.Error("a text that was removed is not stored again")
	}
}

func largestContent(t *testing.T, o *Opened) {
	largest := strings.Repeat("x", journal.MaxContent)
	put(t, o.Log, largest, largest+"x")
	o.check(t, func(t *testing.T, when string) {
		if has(t, o.Log, largest+"x") {
			t.Errorf("%s: a text of more than MaxContent is stored", when)
		}
		if !has(t, o.Log, largest) {
			t.Errorf("%s: a text of MaxContent bytes is not stored", when)
		}
	})
}

func noContents(t *testing.T, o *Opened) {
	put(t, o.Log, "one")
	o.check(t, func(t *testing.T, when string) {
		if has(t, o.Log, "one") {
			t.Errorf("%s: a text is stored by a log that keeps none", when)
		}
	})
}

func get(t tb, r journal.Records, key string) journal.Record {
	t.Helper()
	rec, err := r.Get(within(t), key)
	if err != nil || rec.Key != key {
		t.Fatalf("Get of %s: %+v, %v", key, rec, err)
	}
	return rec
}

func records(t *testing.T, o *Opened) {
	ctx, r := within(t), o.Log.Records("things")
	if rec := get(t, r, "a"); rec.Value != nil || rec.Revision != 0 {
		t.Errorf("a record that does not exist is %+v", rec)
	}
	value := []byte("1")
	first, err := r.Put(ctx, journal.Record{Key: "a", Value: value})
	if err != nil || first == 0 {
		t.Fatalf("revision %d, %v", first, err)
	}
	value[0] = 'x' // must not change the stored record
	if rec := get(t, o.Log.Records("things"), "a"); string(rec.Value) != "1" || rec.Revision != first {
		t.Errorf("the record is %+v, want revision %d", rec, first)
	}
	if rec := get(t, o.Log.Records("others"), "a"); rec.Value != nil || rec.Revision != 0 {
		t.Errorf("the record of another name is %+v", rec)
	}
	second, err := r.Put(ctx, journal.Record{Key: "a", Value: []byte("2"), Revision: first})
	if err != nil || second <= first {
		t.Fatalf("revision %d after %d, %v", second, first, err)
	}
	late := func(key string, revision uint64) error {
		_, err := r.Put(ctx, journal.Record{Key: key, Value: []byte("late"), Revision: revision})
		return err
	}
	_, after := r.PutAfter(ctx, journal.Record{Key: "b", Value: []byte("late")}, first)
	for what, err := range map[string]error{
		"Put as new":                   late("a", 0),
		"Put with the first revision":  late("a", first),
		"Put with a future revision":   late("a", second+1),
		"Put of what does not exist":   late("b", second),
		"PutAfter the first write":     after,
		"Remove of the first revision": r.Remove(ctx, journal.Record{Key: "a", Revision: first}),
	} {
		if !errors.Is(err, journal.ErrChanged) {
			t.Errorf("%s: %v, want ErrChanged", what, err)
		}
	}
	if rec := get(t, r, "a"); string(rec.Value) != "2" || rec.Revision != second {
		t.Errorf("the record is %+v, want revision %d", rec, second)
	}
	if rec := get(t, r, "b"); rec.Value != nil {
		t.Errorf("a write that failed stored %+v", rec)
	}
	must(t, r.Remove(ctx, journal.Record{Key: "a", Revision: second}))
	gone := get(t, r, "a")
	if gone.Value != nil {
		t.Errorf("a removed record is %+v", gone)
	}
	if err := late("a", second); !errors.Is(err, journal.ErrChanged) {
		t.Errorf("Put with a revision from before the removal: %v, want ErrChanged", err)
	}
	third, err := r.Put(ctx, journal.Record{Key: "a", Value: []byte("3"), Revision: gone.Revision})
	if err != nil || third <= second {
		t.Errorf("a record that is made again has revision %d after %d, %v", third, second, err)
	}
	must(t, o.Log.Close())
	if _, err := r.Get(ctx, "a"); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Get after Close: %v", err)
	}
	if err := late("a", third); !errors.Is(err, journal.ErrClosed) {
		t.Errorf("Put after Close: %v", err)
	}
}

// known is the data that a follower of records has received: the values by key, and the number of
// the last write.
type known struct {
	values map[string]string
	last   uint64
}

// watch follows records in a goroutine until the test ends, and sends the current data after each
// change. The channel is never closed. After ctx has ended, changes are discarded.
func watch(ctx context.Context, t *testing.T, r journal.Records) <-chan known {
	changes, now := make(chan known), known{values: map[string]string{}}
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() {
		r.Follow(ctx, func(c journal.Changes) {
			if c.All {
				clear(now.values)
			}
			for _, rec := range c.Records {
				if now.values[rec.Key] = string(rec.Value); rec.Value == nil {
					delete(now.values, rec.Key)
				}
			}
			now.last = max(now.last, c.Last)
			select {
			case changes <- known{maps.Clone(now.values), now.last}:
			case <-ctx.Done():
			}
		})
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return changes
}

// await waits until a follower has received exactly the wanted values.
func await(ctx context.Context, t *testing.T, changes <-chan known, want map[string]string) known {
	t.Helper()
	var now known
	for {
		select {
		case now = <-changes:
			if maps.Equal(now.values, want) {
				return now
			}
		case <-ctx.Done():
			t.Fatalf("one that follows knows %v, want %v: %v", now.values, want, context.Cause(ctx))
		}
	}
}

func recordsAreFollowed(t *testing.T, o *Opened) {
	ctx, r := within(t), o.Log.Records("things")
	empty := watch(ctx, t, o.Log.Records("things"))
	await(ctx, t, empty, nil)
	first, err := r.Put(ctx, journal.Record{Key: "a", Value: []byte("1")})
	must(t, err)
	await(ctx, t, empty, map[string]string{"a": "1"})
	changes := watch(ctx, t, r) // a follower that starts when records exist
	now := await(ctx, t, changes, map[string]string{"a": "1"})
	if now.last == 0 {
		t.Error("the last write has number 0")
	}
	b, err := r.PutAfter(ctx, journal.Record{Key: "b", Value: []byte("2")}, now.last)
	if err != nil {
		t.Fatalf("PutAfter the last write: %v", err)
	}
	if _, err := r.PutAfter(ctx, journal.Record{Key: "c", Value: []byte("late")}, now.last); !errors.Is(err, journal.ErrChanged) {
		t.Errorf("PutAfter the write before the last: %v, want ErrChanged", err)
	}
	await(ctx, t, changes, map[string]string{"a": "1", "b": "2"})
	if _, err := r.Put(ctx, journal.Record{Key: "a", Value: []byte("3"), Revision: first}); err != nil {
		t.Fatal(err)
	}
	await(ctx, t, changes, map[string]string{"a": "3", "b": "2"})
	must(t, r.Remove(ctx, journal.Record{Key: "b", Revision: b}))
	now = await(ctx, t, changes, map[string]string{"a": "3"})
	if _, err := r.PutAfter(ctx, journal.Record{Key: "b", Value: []byte("4")}, now.last); err != nil {
		t.Errorf("PutAfter a removal: %v", err)
	}
	await(ctx, t, changes, map[string]string{"a": "3", "b": "4"})
	await(ctx, t, empty, map[string]string{"a": "3", "b": "4"}) // the first follower receives all later changes
	// Follow returns when its context ends or the log is closed.
	ended := make(chan struct{}, 2)
	following, cancel := context.WithCancel(ctx)
	seen := make(chan struct{}, 2)
	for _, until := range []context.Context{following, context.WithoutCancel(ctx)} {
		go func() {
			var once sync.Once
			r.Follow(until, func(journal.Changes) { once.Do(func() { seen <- struct{}{} }) })
			ended <- struct{}{}
		}()
		<-seen
	}
	cancel()
	<-ended
	if err := o.Log.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}

// Several goroutines increment a counter, and no update is lost.
func recordsOfWriters(t *testing.T, o *Opened) {
	const writers, each = 5, 20
	ctx := within(t)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			r := o.Log.Records("things")
			for n := 0; n < each; {
				rec, err := r.Get(ctx, "count")
				if err != nil {
					t.Error(err)
					return
				}
				count, _ := strconv.Atoi(string(rec.Value)) // 0 if the record does not exist yet
				rec.Value = fmt.Append(nil, count+1)
				switch _, err := r.Put(ctx, rec); {
				case err == nil:
					n++
				case !errors.Is(err, journal.ErrChanged):
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	o.check(t, func(t *testing.T, when string) {
		if rec := get(t, o.Log.Records("things"), "count"); string(rec.Value) != fmt.Sprint(writers*each) {
			t.Errorf("%s: counted %s, want %d", when, rec.Value, writers*each)
		}
	})
}

func recordsAfterReopen(t *testing.T, o *Opened) {
	if o.Reopen == nil {
		t.Skip("the log ends with the process")
	}
	ctx, r := within(t), o.Log.Records("things")
	revisions := map[string]uint64{}
	for _, key := range []string{"a", "b.c_D-1", "gone"} {
		rev, err := r.Put(ctx, journal.Record{Key: key, Value: []byte("value of " + key)})
		must(t, err)
		revisions[key] = rev
	}
	must(t, r.Remove(ctx, journal.Record{Key: "gone", Revision: revisions["gone"]}))
	o.reopen(t)
	r = o.Log.Records("things")
	now := await(ctx, t, watch(ctx, t, r), map[string]string{"a": "value of a", "b.c_D-1": "value of b.c_D-1"})
	if gone := get(t, r, "gone"); gone.Value != nil {
		t.Errorf("a removed record is %+v", gone)
	}
	if rec := get(t, r, "a"); rec.Revision != revisions["a"] {
		t.Errorf("revision %d was %d", rec.Revision, revisions["a"])
	}
	if _, err := r.Put(ctx, journal.Record{Key: "gone", Value: []byte("late"), Revision: revisions["gone"]}); !errors.Is(err, journal.ErrChanged) {
		t.Errorf("Put with a revision from before the removal: %v, want ErrChanged", err)
	}
	rev, err := r.PutAfter(ctx, journal.Record{Key: "a", Value: []byte("2"), Revision: revisions["a"]}, now.last)
	if err != nil || rev <= revisions["gone"] {
		t.Errorf("the next write has revision %d after %d, %v", rev, revisions["gone"], err)
	}
	if _, err := r.Put(ctx, journal.Record{Key: "a", Value: []byte("late"), Revision: revisions["a"]}); !errors.Is(err, journal.ErrChanged) {
		t.Errorf("Put with the revision from before: %v, want ErrChanged", err)
	}
}
