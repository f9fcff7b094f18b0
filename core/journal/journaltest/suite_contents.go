package journaltest

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
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
		for name, want := range map[string]string{"tool/search": "0 true, 4 true wording", "tool/stays": "0 true", "instructions": "1 true", "tool/none": ""} {
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
