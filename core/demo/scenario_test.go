package demo

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// play returns what a scenario saves over some ticks.
func play(t *testing.T, seed uint64, ticks int) (saved []string, o *scenario) {
	t.Helper()
	dir := t.TempDir()
	o = newScenario(dir, Options{Seed: seed, Now: func() time.Time { return time.Unix(1_800_000_000, 0) }})
	if err := o.open(); err != nil {
		t.Fatal(err)
	}
	for range ticks {
		if err := o.step(); err != nil {
			t.Fatal(err)
		}
		_ = filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				text, _ := os.ReadFile(path)
				rel, _ := filepath.Rel(dir, path)
				saved = append(saved, rel+": "+string(text))
			}
			return err
		})
	}
	return saved, o
}

// The texts depend on the seed only; over several cycles everything is added and
// removed, and the inbox is bounded.
func TestScenarioIsDeterministic(t *testing.T) {
	t.Parallel()
	one, o := play(t, 7, 36)
	again, _ := play(t, 7, 36)
	if diff := cmp.Diff(one, again); diff != "" {
		t.Errorf("the same seed gives different texts (-first +second):\n%s", diff)
	}
	if other, _ := play(t, 8, 36); slices.Equal(one, other) {
		t.Error("another seed gives the same texts")
	}
	all := strings.Join(one, "\n")
	for _, want := range []string{"inbox/message-1.md", "inbox/message-7.md", "tags: [inbox/new]", "tags: [inbox/read]", "- [x] ", "- [ ] "} {
		if !strings.Contains(all, want) {
			t.Errorf("%q never came", want)
		}
	}
	if len(o.mail) != maxMail || o.counting != 0 || o.summary != 0 {
		t.Errorf("after six cycles: %d messages, %d, %d", len(o.mail), o.counting, o.summary)
	}
}

// A server that is started again continues the scenario: it has the notes of one that was not.
func TestScenarioContinues(t *testing.T) {
	t.Parallel()
	began := time.Unix(1_800_000_000, 0)
	now := began
	clock := func() time.Time { return now }
	notes := func(ticks int, opts Options) (all []string) {
		dir := t.TempDir()
		opts.Seed, opts.Now, opts.Interval = 7, clock, time.Second
		s := newScenario(dir, opts)
		if err := s.open(); err != nil {
			t.Fatal(err)
		}
		for range ticks {
			if err := s.step(); err != nil {
				t.Fatal(err)
			}
		}
		for _, path := range []string{guideNote, tasksNote, "inbox/message-3.md", "inbox/message-4.md", "inbox/message-6.md"} {
			text, err := os.ReadFile(filepath.Join(dir, path))
			all = append(all, string(text))
			if err != nil {
				all = append(all, "absent")
			}
		}
		return all
	}
	want := notes(33, Options{})
	now = began.Add(33*time.Second + 300*time.Millisecond)
	if diff := cmp.Diff(want, notes(0, Options{Began: began})); diff != "" {
		t.Error(diff)
	}
}
