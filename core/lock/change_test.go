package lock

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// Decide approves exactly the definitions that were shown, and nothing if the lock was changed meanwhile.
func TestDecide(t *testing.T) {
	t.Parallel()
	tool := func(text string) Item {
		return DefaultHashing().Item(SectionTools, []byte(text))
	}
	was := offers(tool(`{"name":"dig","description":"digs"}`), tool(`{"name":"rake"}`))
	now := offers(tool(`{"name":"dig","description":"digs deep"}`), tool(`{"name":"sow"}`)) // rake was removed
	path := filepath.Join(t.TempDir(), "mcptrack.lock")
	change := func(f func(*Lock)) {
		t.Helper()
		if err := Update(t.Context(), path, func(l *Lock) error { f(l); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	reset := func() { change(func(l *Lock) { l.Servers["docs"] = NewServer(was) }) }
	reset()
	l, err := Read(path)
	must(t, err)
	var shown []Change
	for _, d := range Compare(l.Servers["docs"], now) {
		shown = append(shown, NewChange("docs", d))
	}
	decide := func(approve bool, want string) {
		t.Helper()
		left, _, err := Decide(t.Context(), path, approve, shown)
		if err != nil || len(left) > 0 {
			t.Fatal(left, err)
		}
		l, err := Read(path)
		must(t, err)
		if got := text(Compare(l.Servers["docs"], now)); got != want {
			t.Errorf("left: %s, want %s", got, want)
		}
	}
	decide(true, "")
	reset()
	decide(false, "tools/dig →digs deep rejected\ntools/rake → rejected\ntools/sow → rejected")
	if l, err := Read(path); err != nil || len(l.Servers["docs"].Rejected) != 3 {
		t.Errorf("%+v, %v", l.Servers["docs"].Rejected, err)
	}
	// What was shown is approved no more if the lock has other definitions now.
	change(func(l *Lock) {
		l.Servers["docs"] = NewServer(offers(tool(`{"name":"dig"}`), tool(`{"name":"sow","title":"S"}`)))
	})
	before, _ := os.ReadFile(path)
	if left, _, err := Decide(t.Context(), path, true, shown); err != nil || len(left) != 3 {
		t.Errorf("%d left, %v", len(left), err)
	}
	if after, _ := os.ReadFile(path); string(after) != string(before) {
		t.Error("the lock was changed")
	}
	if left, _, err := Decide(t.Context(), path, false, []Change{NotLocked("web")}); err != nil || len(left) != 1 {
		t.Errorf("%v, %v", left, err)
	}
	// A lock that was removed is not made again: it would hold all servers.
	must(t, os.Remove(path))
	if left, _, err := Decide(t.Context(), path, true, shown); err != nil || len(left) != 3 {
		t.Errorf("%d left, %v", len(left), err)
	}
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Error("there is a lock again")
	}
}

// A fingerprint covers the new definition to the last byte, also what its hash does not cover.
func TestFingerprint(t *testing.T) {
	t.Parallel()
	h := DefaultHashing()
	seen := map[string]string{}
	old := h.Item(SectionTools, []byte(`{"name":"dig"}`))
	for _, text := range []string{`{"name":"dig","account":9007199254740993}`, `{"name":"dig","account":9007199254740992}`, `{"name":"dig","_meta":{"a":1}}`, `{"name":"dig", "title":"x"}`, `{"name":"dig","title":"x"}`} {
		for _, server := range []string{"docs", "web"} {
			f := NewChange(server, Drift{Section: SectionTools, Key: "dig", Old: old, New: h.Item(SectionTools, []byte(text)), Classes: []string{"L015"}}).Fingerprint()
			if before, twice := seen[f]; twice || len(f) != 43 {
				t.Errorf("%s of %s has the fingerprint of %s: %s", text, server, before, f)
			}
			seen[f] = text
		}
	}
	removed, other := Drift{Section: SectionTools, Key: "dig", Old: old, Classes: []string{"L001"}}, Drift{Section: SectionPrompts, Key: "dig", Old: old, Classes: []string{"L001"}}
	if NewChange("docs", removed).Fingerprint() == NewChange("docs", other).Fingerprint() {
		t.Error("the same for two sections")
	}
}

// TestUndo: an undone decision leaves the bytes of the lock as they were, also in a section that the lock did not
// have, and of the only item of a section.
func TestUndo(t *testing.T) {
	t.Parallel()
	h := DefaultHashing()
	all := Observation{SectionTools: {h.Item(SectionTools, []byte(`{"name":"dig"}`)), h.Item(SectionTools, []byte(`{"name":"sow"}`))}, SectionPrompts: {h.Item(SectionPrompts, []byte(`{"name":"ask"}`))},
		SectionInstructions: {h.Item(SectionInstructions, []byte(`"dig"`))}, SectionLaunch: {h.Item(SectionLaunch, []byte(`{"command":"dig"}`))}}
	one := Observation{SectionTools: {h.Item(SectionTools, []byte(`{"name":"dig","title":"Dig"}`))}, SectionPrompts: {}, SectionLaunch: {h.Item(SectionLaunch, []byte(`{"command":"sow"}`))}}
	for _, c := range []struct {
		was, now Observation
		approve  bool
	}{{one, all, true}, {all, one, true}, {Observation{}, all, true}, {one, all, false}, {all, one, false}} {
		path := filepath.Join(t.TempDir(), "mcptrack.lock")
		must(t, Update(t.Context(), path, func(l *Lock) error { l.Servers["docs"] = NewServer(c.was); return nil }))
		before, err := os.ReadFile(path)
		must(t, err)
		l, err := Read(path)
		must(t, err)
		var shown []Change
		for _, d := range Compare(l.Servers["docs"], c.now) {
			shown = append(shown, NewChange("docs", d))
		}
		_, undo, err := Decide(t.Context(), path, c.approve, shown)
		must(t, err)
		if decided, _ := os.ReadFile(path); len(shown) == 0 || string(decided) == string(before) {
			t.Error("nothing was decided")
		}
		if ok, err := undo.Apply(t.Context(), path); err != nil || !ok {
			t.Error(ok, err)
		}
		if after, _ := os.ReadFile(path); string(after) != string(before) {
			t.Errorf("the lock is %s, was %s", after, before)
		}
	}
}
