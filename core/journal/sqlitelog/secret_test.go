package sqlitelog

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// Soon after a record was removed or replaced, no file contains what it had, such as the secret of
// a webhook, even if the record was large or one of many.
func TestRemovedRecordsLeaveNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := open(t, Options{Dir: dir})
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	things := l.Records("things")
	n := 200
	if testing.Short() {
		n = 60
	}
	secret := func(i int) string { return fmt.Sprintf("secret-%d;", i) }
	revisions := map[int]uint64{}
	for _, i := range rng.Perm(n) {
		size := 200
		if i%10 == 0 {
			size = 20_000 // pages of its own
		}
		revision, err := things.Put(t.Context(), journal.Record{Key: fmt.Sprint("key ", i), Value: []byte(strings.Repeat(secret(i), size/10))})
		if err != nil {
			t.Fatal(err)
		}
		revisions[i] = revision
	}
	contains := func(i int) (where string) {
		for _, suffix := range []string{"", "-wal"} {
			b, err := os.ReadFile(events(dir) + suffix)
			if err != nil && !os.IsNotExist(err) {
				t.Fatal(err)
			}
			if bytes.Contains(b, []byte(secret(i))) {
				where += " events.db" + suffix
			}
		}
		return where
	}
	if where := contains(1); where == "" {
		t.Fatal("the secret is not found where it should be")
	}
	if err := l.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	closeLog(t, l)
	l = open(t, Options{Dir: dir}) // now they are in events.db
	things = l.Records("things")
	if where := contains(1); where != " events.db" {
		t.Fatalf("the secret is in%s", where)
	}
	for _, i := range rng.Perm(n) {
		rec := journal.Record{Key: fmt.Sprint("key ", i), Revision: revisions[i]}
		var err error
		switch i % 3 {
		case 0:
			err = things.Remove(t.Context(), rec)
		case 2:
			rec.Value = []byte("short")
			_, err = things.Put(t.Context(), rec)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := things.Remove(t.Context(), journal.Record{Key: "key 1", Revision: revisions[1]}); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if gone := i%3 != 1 || i == 1; gone {
			journaltest.Eventually(t, noticed, fmt.Sprintf("secret %d is gone", i), func() bool { return contains(i) == "" })
		} else if contains(i) == "" {
			t.Errorf("record %d is gone", i)
		}
	}
	closeLog(t, l)
	for i := range n {
		if where := contains(i); i%3 != 1 && where != "" {
			t.Errorf("secret %d is in%s", i, where)
		}
	}
}
