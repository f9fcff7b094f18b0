package coalesce

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// A resource that returns is compared with what was published last.
func TestReturningResourceIsCompared(t *testing.T) {
	l := newLab(true)
	left := map[string]catalog.Digest{}
	l.c.opts.Baseline = func(uri string) catalog.Digest { return left[uri] }
	l.c.opts.Forgotten = func(all []Known) {
		for _, k := range all {
			left[k.URI] = k.Told()
		}
	}
	l.follow("a", "b")
	l.c.Retain(func(uri string) bool { return uri == "b" })
	if _, tracked := l.c.Lookup("a"); tracked {
		t.Fatal("a is still tracked")
	}
	l.truth["a"]++
	l.c.Add("a", event.Descriptor{})
	l.c.FirstLook("a")
	l.launch()
	l.run(5 * time.Second)
	if len(l.events["a"]) != 1 {
		t.Errorf("published %v", l.events["a"])
	}
}

// Sub-resources are removed with their parent, unless they were added in their own right meanwhile.
func TestSubResourcesAreRemovedWithTheirParent(t *testing.T) {
	l := newLab(true)
	var forgotten []string
	l.c.opts.Forgotten = func(all []Known) {
		for _, k := range all {
			forgotten = append(forgotten, k.URI)
		}
	}
	l.follow("dir")
	for _, uri := range []string{"dir/a", "dir/b"} {
		l.c.Signal(uri, Signal{Parent: "dir", N: 1, Received: l.now}, l.now)
		l.launch()
	}
	l.run(5 * time.Second)
	if l.c.Add("dir/b", event.Descriptor{}) {
		t.Error("dir/b is new, though it is tracked already")
	}
	l.c.Retain(func(uri string) bool { return uri == "dir/b" })
	slices.Sort(forgotten)
	if !slices.Equal(forgotten, []string{"dir", "dir/a"}) {
		t.Errorf("forgot %q, want the parent and the sub-resource that was not added", forgotten)
	}
	if len(l.c.keys["dir/b"].children) != 0 || l.c.keys["dir/b"].parent != nil {
		t.Error("dir/b still has relatives")
	}
}

// Every signal of a sub-resource causes a comparison of its parent. A parent has at most
// maxChildren sub-resources; idle ones make room for new ones.
func TestSubResourcesAreBounded(t *testing.T) {
	l := newLab(true)
	l.follow("dir")
	for round := range 3 {
		for i := range maxChildren - 100 {
			l.c.Signal(fmt.Sprintf("dir/%d-%d", round, i), Signal{Parent: "dir", N: 1, Received: l.now}, l.now)
			l.launch()
		}
		l.run(time.Minute)
		if n := len(l.c.keys); n > maxChildren+1 {
			t.Fatalf("%d resources are tracked", n)
		}
		if n := len(l.c.keys["dir"].children); n != len(l.c.keys)-1 {
			t.Fatalf("%d sub-resources are counted, %d are tracked", n, len(l.c.keys)-1)
		}
	}
	if n := len(l.events); n < 3*(maxChildren-100) {
		t.Errorf("published events about %d resources only", n)
	}
}

// Reset forgets everything and sets whether resources are read.
func TestResetForgets(t *testing.T) {
	l := newLab(true)
	l.follow("a", "b")
	l.c.Reset(false)
	if len(l.c.keys) != 0 || l.c.Digests() {
		t.Errorf("%d resources are left", len(l.c.keys))
	}
	l.follow("a")
	l.announce("a", 1)
	if got := l.last("a"); got.read || got.cause != event.CauseNotify {
		t.Errorf("published %+v, want an update without content", got)
	}
}

// Facts are learned only from a read that has just found them, not from one whose answer is ignored because
// it may be outdated.
func TestOnlyReadsConfirm(t *testing.T) {
	var learned []Known
	c := New(Options{Window: 2 * time.Second, Patience: time.Second, Digests: true, Learned: func(r Known) { learned = append(learned, r) },
		Baseline: func(string) catalog.Digest { return digestOf(1) }})
	now := time.Unix(1_700_000_000, 0)
	c.Add("a", event.Descriptor{})
	learned = nil
	read := func() Read {
		t.Helper()
		r, ok := c.NextRead(1)
		if !ok {
			t.Fatal("nothing is read")
		}
		return r
	}
	c.Check("a", Resync)
	first := read()
	c.Recheck("a", Resync) // it may have changed since the read began
	c.Answer(first, OK, Content{Digest: digestOf(1)}, now)
	if len(learned) != 0 {
		t.Errorf("an ignored answer: %+v", learned)
	}
	c.Answer(read(), OK, Content{Digest: digestOf(1)}, now)
	if len(learned) != 1 || learned[0].Told() != digestOf(1) {
		t.Errorf("read as it was: %+v", learned)
	}
	c.Check("a", Resync)
	c.Answer(read(), Missing, Content{}, now)
	if len(learned) != 2 || learned[1].Told() != catalog.Gone() {
		t.Errorf("read as missing: %+v", learned)
	}
}
