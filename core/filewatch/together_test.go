package filewatch

import (
	"slices"
	"testing"
	"time"
)

// Paths that change at almost the same time, as when a folder is removed, are delivered in one batch,
// and each only after it was quiet.
func TestChangesTogether(t *testing.T) {
	t.Parallel()
	start := time.Now()
	at := func(d time.Duration) time.Time { return start.Add(d) }
	d := dirtyPaths{quiet: 200 * time.Millisecond, most: time.Second, limit: 100}
	d.kick("d/a.md", at(0))
	d.kick("d/b.md", at(time.Millisecond))
	d.kick("d", at(2*time.Millisecond))
	d.kick("later", at(150*time.Millisecond))
	due, ok := d.due()
	if !ok || due != at(202*time.Millisecond) {
		t.Fatalf("due after %s", due.Sub(start))
	}
	if b := d.take(due); b == nil || !slices.Equal(b.Paths, []string{"d", "d/a.md", "d/b.md"}) {
		t.Errorf("the first batch is %+v", b)
	}
	if due, ok = d.due(); !ok || due != at(350*time.Millisecond) {
		t.Errorf("the next is due after %s", due.Sub(start))
	}
}
