package lock

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// offers returns an observation of tools.
func offers(tools ...Item) Observation { return Observation{SectionTools: tools} }

// text returns drift as lines such as "tools/read a→b", with the descriptions of tools.
func text(drifts []Drift) string {
	word := func(it Item) string {
		_, after, _ := strings.Cut(string(it.Definition), `"description":"`)
		before, _, _ := strings.Cut(after, `"`)
		return before
	}
	var lines []string
	for _, d := range drifts {
		line := fmt.Sprintf("%s/%s %s→%s", d.Section, d.Key, word(d.Old), word(d.New))
		if d.Rejected {
			line += " rejected"
		}
		if d.New.Problem != "" {
			line += " problem"
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

func TestCompare(t *testing.T) {
	t.Parallel()
	broken := DefaultHashing().Item(SectionTools, []byte(`{"name":"read","description":"a","description":"b"}`))
	one := NewServer(offers(tool("read", "a"), tool("old", "o")))
	two := NewServer(offers(tool("read", "a"), tool("read", "b")))
	for _, test := range []struct {
		name     string
		approved *Server
		offered  Observation
		want     string
	}{
		{"the same", one, offers(tool("read", "a"), tool("old", "o")), ""},
		{"the same in another order", one, offers(tool("old", "o"), tool("read", "a")), ""},
		{"the same twice", one, offers(tool("old", "o"), tool("read", "a"), tool("read", "a")), ""},
		{"nothing was approved", nil, offers(tool("read", "b"), tool("new", "n"), tool("new", "n")), "tools/new →n\ntools/read →b"},
		{"changed", one, offers(tool("read", "x"), tool("old", "o")), "tools/read a→x"},
		{"added", one, offers(tool("read", "a"), tool("old", "o"), tool("x", "x")), "tools/x →x"},
		{"removed", one, offers(tool("read", "a")), "tools/old o→"},
		{"renamed", one, offers(tool("read", "a"), tool("оld", "o")), "tools/old o→\ntools/оld →o"},
		{"all removed", one, offers(), "tools/old o→\ntools/read a→"},
		{"not listed", one, Observation{}, ""},
		{"another section", one, Observation{SectionPrompts: {DefaultHashing().Item(SectionPrompts, []byte(`{"name":"p"}`))}}, "prompts/p →"},
		{"one of two definitions", two, offers(tool("read", "b")), ""},
		{"one of two definitions and another", two, offers(tool("read", "b"), tool("read", "x")), "tools/read a→x"},
		{"a second tool of the same name", one, offers(tool("read", "a"), tool("read", "x"), tool("old", "o")), "tools/read →x"},
		{"a problem", one, offers(broken, tool("old", "o")), "tools/read a→a problem"},
		{"a problem beside the approved tool", one, offers(broken, tool("read", "a"), tool("old", "o")), "tools/read →a problem"},
	} {
		got := Compare(test.approved, test.offered)
		if diff := cmp.Diff(test.want, text(got)); diff != "" {
			t.Errorf("%s: -want +got\n%s", test.name, diff)
		}
		for _, d := range got {
			if len(d.Classes) == 0 || !slices.IsSorted(d.Classes) || d.Added() != (d.Old.Hash == "") || d.Removed() && d.Added() {
				t.Errorf("%s: %+v", test.name, d)
			}
		}
	}
}

func TestTake(t *testing.T) {
	t.Parallel()
	s := NewServer(offers(tool("read", "a"), tool("gone", "g")))
	now := offers(tool("read", "b"), tool("new", "n"))
	drifts := Compare(s, now)
	if len(drifts) != 3 {
		t.Fatal(text(drifts))
	}
	if left := s.Take(drifts, "L001", "L005"); text(left) != text(Compare(s, now)) || len(left) != 1 {
		t.Errorf("left:\n%s\nthen:\n%s", text(left), text(Compare(s, now)))
	}
	if left := s.Take(drifts[2:]); len(left) != 0 {
		t.Error(text(left))
	}
	if diff := cmp.Diff(NewServer(now), s, cmpopts.IgnoreUnexported(Item{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if left := s.Take(drifts); len(left) != 2 {
		t.Errorf("drift of a lock that has changed was taken; left:\n%s", text(left))
	}
}

// TestTakeSettles: after everything is taken, nothing drifts, whatever was offered.
func TestTakeSettles(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	observe := func() Observation {
		o := offers()
		for range r.IntN(5) {
			o[SectionTools] = append(o[SectionTools], tool(string(rune('a'+r.IntN(2))), string(rune('0'+r.IntN(3)))))
		}
		return o
	}
	for round := range 200 {
		first, second := observe(), observe()
		s := NewServer(first)
		if drifts := Compare(s, first); len(drifts) > 0 {
			t.Fatalf("%v: %s", first, text(drifts))
		}
		drifts := Compare(s, second)
		if left := s.Take(drifts); len(left) > 0 {
			t.Fatalf("left:\n%s", text(left))
		}
		if rest := Compare(s, second); len(rest) > 0 {
			t.Fatalf("%v\n%v\ntaken:\n%s\nthen:\n%s", first, second, text(drifts), text(rest))
		}
		l := New()
		l.Servers["s"] = s
		if round%50 == 0 {
			if _, err := Marshal(l); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestReject(t *testing.T) {
	t.Parallel()
	approved := offers(tool("read", "a"), tool("old", "o"))
	s := NewServer(approved)
	now := offers(tool("read", "b"), DefaultHashing().Item(SectionTools, []byte(`{"name":7}`)))
	drifts := Compare(s, now)
	s.Reject(drifts)
	s.Reject(drifts)
	if want := "tools/ → problem\ntools/old o→ rejected\ntools/read a→b rejected"; text(Compare(s, now)) != want || len(s.Rejected) != 2 {
		t.Errorf("%s\n%+v", text(Compare(s, now)), s.Rejected)
	}
	if drifts := Compare(s, approved); len(drifts) > 0 {
		t.Error(text(drifts))
	}
	if got := text(Compare(s, offers(tool("read", "c"), tool("old", "o")))); got != "tools/read a→c" {
		t.Error(got)
	}
	if left := s.Take(drifts); len(left) != 1 || left[0].New.Problem == "" || len(s.Rejected) != 0 {
		t.Errorf("%s\n%+v", text(left), s.Rejected)
	}
}

func TestCompareLocks(t *testing.T) {
	t.Parallel()
	a, b := sample(), sample()
	if drifts := CompareLocks(a, b); len(drifts) > 0 {
		t.Errorf("%+v", drifts)
	}
	b.Hashing = Hashing{} // the hashes of b do not matter
	if drifts := CompareLocks(a, b); len(drifts) > 0 {
		t.Errorf("%+v", drifts)
	}
	files := b.Servers["files"]
	files.Items[SectionTools][0] = tool("read", "x")
	delete(files.Items, SectionContents)
	b.Servers["new"] = &Server{Items: map[Section][]Item{SectionTools: {tool("t", "t")}}}
	got := CompareLocks(a, b)
	if len(got) != 2 || text(got["files"]) != "tools/read Reads a file.→x\ncontents/file:///a →" || text(got["new"]) != "tools/t →t" {
		t.Errorf("%s\n%s", text(got["files"]), text(got["new"]))
	}
	if drifts := CompareLocks(a, New())["files"]; len(drifts) != 9 || !drifts[0].Removed() {
		t.Errorf("a server was removed: %s", text(drifts))
	}
	got = CompareLocks(b, a)
	if len(got) != 2 || text(got["new"]) != "tools/t t→" {
		t.Errorf("%s", text(got["new"]))
	}
}

// TestCompareLocksSettings: a setting that became weaker is a change, and a stricter one is none.
func TestCompareLocksSettings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		was, now Policy
		want     string // the diff
	}{
		{nil, nil, ""},
		{Policy{"L002": Allow}, Policy{"L002": Allow}, ""},
		{Policy{"L002": Allow, "L011": Hold}, nil, ""},
		{Policy{"L002": Allow}, Policy{"L002": Audit}, ""},
		{nil, Policy{"L001": Block}, ""}, // stricter than the default
		{nil, Policy{"L011": Allow}, "+launch: \"allow\""},
		{Policy{"L002": Audit}, Policy{"L002": Allow}, "-wording: \"audit\" +wording: \"allow\""},
		{Policy{"L002": Allow}, Policy{"L011": Audit}, "-wording: \"allow\" +launch: \"audit\""},
	} {
		a, b := sample(), sample()
		a.Servers["files"].Policy, b.Servers["files"].Policy = test.was, test.now
		drifts := CompareLocks(a, b)["files"]
		var diff []string
		for _, d := range drifts {
			for line := range strings.Lines(d.Diff()) {
				if line = strings.TrimSpace(line); strings.ContainsAny(line[:1], "+-") && !strings.Contains(line, "policy") {
					diff = append(diff, line)
				}
			}
			if d.Name() != "policy" || !slices.Equal(d.Classes, []string{"L017"}) || d.Removed() {
				t.Errorf("%+v: %+v", test, d)
			}
			if left := a.Servers["files"].Take(drifts, "L002"); len(left) != 1 || !maps.Equal(a.Servers["files"].Policy, test.was) {
				t.Errorf("%+v: another class was taken", test)
			}
			a.Servers["files"].Reject(drifts)
			if now := CompareLocks(a, b)["files"]; len(now) != 1 || !now[0].Rejected {
				t.Errorf("%+v: it is not rejected: %+v", test, now)
			}
			if left := a.Servers["files"].Take(drifts, "L017"); len(left) > 0 || !maps.Equal(a.Servers["files"].Policy, test.now) || len(CompareLocks(a, b)) > 0 {
				t.Errorf("%+v: it was not taken", test)
			}
			if left := a.Servers["files"].Take(drifts); len(left) != 1 && len(test.was) != 0 {
				t.Errorf("%+v: it was taken although the lock has another policy", test)
			}
		}
		if got := strings.Join(diff, " "); got != test.want || len(drifts) > 1 {
			t.Errorf("%v, %v: %s, want %s", test.was, test.now, got, test.want)
		}
	}
	a, b := New(), New()
	b.Servers["new"] = &Server{Policy: Policy{"L002": Allow}}
	if got := CompareLocks(a, b)["new"]; len(got) != 1 || !got[0].Added() {
		t.Errorf("the settings of a new server: %+v", got)
	}
	if got := CompareLocks(b, a); len(got) > 0 {
		t.Errorf("a server was removed: %+v", got)
	}
}

// TestDriftHasClasses: each difference has a class, of the table.
func TestDriftHasClasses(t *testing.T) {
	t.Parallel()
	a := sample()
	b := New()
	b.Servers["files"] = &Server{Items: map[Section][]Item{}}
	for want, pair := range map[int][2]*Lock{9: {a, b}, 10: {b, a}} { // settings that become stricter are no drift
		drifts := CompareLocks(pair[0], pair[1])["files"]
		if len(drifts) != want {
			t.Errorf("%d, want %d", len(drifts), want)
		}
		for _, d := range drifts {
			for _, id := range d.Classes {
				if c, ok := FindClass(id); !ok || c.ID != id {
					t.Errorf("%s %s: class %q", d.Section, d.Key, id)
				}
			}
		}
	}
}

// TestExcludedMembersAreNoChange: what hashes leave out has no class, also beside another change.
func TestExcludedMembersAreNoChange(t *testing.T) {
	t.Parallel()
	observe := func(definition string) Observation {
		return Observation{SectionResources: {DefaultHashing().Item(SectionResources, []byte(definition))}}
	}
	s := NewServer(observe(`{"uri":"a","size":1,"description":"x","annotations":{"lastModified":"1"}}`))
	l := New()
	l.Servers["s"] = s
	data, err := Marshal(l)
	must(t, err)
	if l, err = Parse(data); err != nil {
		t.Fatal(err)
	}
	if drifts := Compare(l.Servers["s"], observe(`{"uri":"a","size":2,"description":"x","annotations":{"lastModified":"2"}}`)); len(drifts) > 0 {
		t.Errorf("%+v", drifts)
	}
	drifts := Compare(l.Servers["s"], observe(`{"uri":"a","size":2,"description":"y","annotations":{"lastModified":"2"}}`))
	if len(drifts) != 1 || !slices.Equal(drifts[0].Classes, []string{"L002"}) {
		t.Errorf("%+v", drifts)
	}
}

// TestTakeAgain: drift that was approved in the meantime changes nothing.
func TestTakeAgain(t *testing.T) {
	t.Parallel()
	s := NewServer(offers(tool("read", "a")))
	drifts := Compare(s, offers(tool("read", "a"), tool("x", "x")))
	s.Take(drifts)
	s.Take(drifts)
	if got := s.Items[SectionTools]; len(got) != 2 || got[1].Key != "x" {
		t.Errorf("%+v", got)
	}
}

// TestTwinIsSuspicious: the name of an added tool or prompt that looks like another one is suspicious, whatever its
// text says.
func TestTwinIsSuspicious(t *testing.T) {
	t.Parallel()
	s := NewServer(offers(tool("draw", "a"), tool("Old", "a")))
	for _, test := range []struct {
		name string
		now  []Item
		want string // the classes of each change
		twin string // of the last one
	}{
		{"other name", []Item{tool("draw", "a"), tool("Old", "a"), tool("dry", "a")}, "[L005]", ""},
		{"Cyrillic", []Item{tool("draw", "a"), tool("Old", "a"), tool("dr\u0430w", "a")}, "[L005 L009]", "draw"},
		{"case, in place of the old one", []Item{tool("draw", "a"), tool("old", "a")}, "[L001] [L005 L009]", "Old"},
		{"hidden character", []Item{tool("draw", "a"), tool("Old", "a"), tool("draw\u200b", "a")}, "[L005 L009]", "draw"},
		{"two new ones", []Item{tool("draw", "a"), tool("Old", "a"), tool("list", "a"), tool("1ist", "a")}, "[L005] [L005 L009]", "1ist"},
		{"two definitions of one", []Item{tool("draw", "a"), tool("Old", "a"), tool("new", "a"), tool("new", "b")}, "[L005] [L005]", ""},
	} {
		var classes []string
		twin := ""
		for _, d := range Compare(s, offers(test.now...)) {
			classes, twin = append(classes, fmt.Sprint(d.Classes)), d.Twin
			if reasons := d.Reasons(); (d.Twin != "") != strings.Contains(kinds(reasons), Twin) {
				t.Errorf("%s: %+v", test.name, reasons)
			}
		}
		if got := strings.Join(classes, " "); got != test.want || twin != test.twin {
			t.Errorf("%s: %s, twin %q; want %s, %q", test.name, got, twin, test.want, test.twin)
		}
	}
	prompt := DefaultHashing().Item(SectionPrompts, []byte(`{"name":"Greet"}`))
	s.Items[SectionPrompts] = []Item{prompt}
	now := Observation{SectionPrompts: {prompt, DefaultHashing().Item(SectionPrompts, []byte(`{"name":"greet"}`))}}
	if drifts := Compare(s, now); len(drifts) != 1 || drifts[0].Twin != "Greet" {
		t.Errorf("%+v", drifts)
	}
}

// TestReasonsOfContents: links and words for secrets are no reasons in a document, and do not use up the
// reasons that there may be.
func TestReasonsOfContents(t *testing.T) {
	t.Parallel()
	h := DefaultHashing()
	content := func(text string) Item {
		return h.Item(SectionContents, Content("a://b", "text/plain", []byte(text), true))
	}
	s := &Server{Items: map[Section][]Item{SectionContents: {content("one")}}}
	var links strings.Builder
	for i := range 2 * maxReasons {
		fmt.Fprintf(&links, "https://%d.net/ is its address, and its password is %d.\n", i, i)
	}
	for text, want := range map[string]string{links.String(): "", links.String() + "zero\u200bwidth": Hidden} {
		drifts := Compare(s, Observation{SectionContents: {content(text)}})
		if len(drifts) != 1 || kinds(drifts[0].Reasons()) != want || slices.Contains(drifts[0].Classes, "L009") != (want != "") {
			t.Errorf("%v: %+v", drifts[0].Classes, drifts[0].Reasons())
		}
	}
}
