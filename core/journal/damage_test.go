package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// blocks are the files that hold the events.
func blocks(t *testing.T, dir string) []string {
	t.Helper()
	return blocksOf(t, filepath.Join(dir, "store"))
}

func blocksOf(t *testing.T, store string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(store, "jetstream", "*", "streams", "mcptrack", "msgs", "*.blk"))
	if err != nil || len(found) == 0 {
		t.Fatalf("no blocks: %v", err)
	}
	return found
}

func change(t *testing.T, file string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, f(b), 0o600); err != nil {
		t.Fatal(err)
	}
}

// truthful fails if an entry is not what was appended under its number, and
// returns how many are there and how many were reported missing.
func truthful(t *testing.T, entries []Entry, same bool) (there, missing int) {
	t.Helper()
	next := uint64(1)
	for _, e := range entries {
		if e.Gap != nil {
			_, from, err := event.ParseID(e.Gap.From)
			if err != nil || from != next-1 || e.Seq < next {
				t.Fatalf("gap %+v after %d", e.Gap, next-1)
			}
			missing += int(e.Seq - from)
			next = e.Seq + 1
			continue
		}
		if e.Seq != next {
			t.Fatalf("entry %s after %d, without a gap before it", e.ID, next-1)
		}
		ev, err := e.Event()
		if err != nil {
			t.Fatalf("%s: %v", e.Data, err)
		}
		if u := ev.Payload.(event.ResourceUpdated); same && (u.Name != fmt.Sprintf("n%d", e.Seq) || u.Digest != digest(e.Seq)) {
			t.Fatalf("served as truth: %s", e.Data)
		}
		there++
		next++
	}
	return there, missing
}

// TestFlippedByteIsNeverServed flips one byte in the middle of a record.
func TestFlippedByteIsNeverServed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const n = 200
	j := open(t, Options{Dir: dir})
	epoch := j.Epoch()
	appendN(t, j, newSource(), n)
	closeJournal(t, j)
	change(t, blocks(t, dir)[0], func(b []byte) []byte {
		i := bytes.Index(b, []byte(`"name":"n100"`))
		if i < 0 {
			t.Fatal("the event is not where it is expected")
		}
		b[i+9] ^= 4
		return b
	})
	j = open(t, Options{Dir: dir})
	there, missing := truthful(t, read(t, j, 0), true)
	t.Logf("%d there, %d reported missing, epoch kept: %v, %+v", there, missing, j.Epoch() == epoch, j.Stats())
	if there+missing != n && j.Epoch() == epoch {
		t.Errorf("%d of %d are neither there nor reported missing", n-there-missing, n)
	}
	if there < n/3 {
		t.Errorf("one byte cost %d of %d events", n-there, n)
	}
	if j.Stats().Damages == 0 {
		t.Error("the damage was not counted")
	}
	// It goes on.
	if e := appendN(t, j, newSource(), 3); int(e.Seq) < there+3 {
		t.Errorf("goes on with %s", e.ID)
	}
}

// TestFlippedSequenceDoesNotHang flips the highest byte of a sequence number, up
// to which the store would count.
func TestFlippedSequenceDoesNotHang(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	const n = 50
	j := open(t, Options{Dir: dir})
	epoch := j.Epoch()
	appendN(t, j, newSource(), n)
	closeJournal(t, j)
	change(t, blocks(t, dir)[0], func(b []byte) []byte {
		var at int
		for range 20 {
			at += int(binary.LittleEndian.Uint32(b[at:]) &^ headersBit)
		}
		if seq := binary.LittleEndian.Uint64(b[at+4:]); seq != 21 {
			t.Fatalf("the store's files are built in another way: the 21st record has number %d", seq)
		}
		b[at+4+6] ^= 1
		return b
	})
	j = open(t, Options{Dir: dir})
	there, missing := truthful(t, read(t, j, 0), true)
	if there != 20 || missing != 0 || j.Epoch() == epoch || j.Stats().Damages == 0 {
		t.Errorf("%d there, %d reported missing, epoch kept: %v, %+v", there, missing, j.Epoch() == epoch, j.Stats())
	}
}

// TestRandomDamage flips, cuts and removes, at random places, and reads.
func TestRandomDamage(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for round := range 6 {
		dir := t.TempDir()
		j := open(t, Options{Dir: dir})
		epoch := j.Epoch()
		appendN(t, j, newSource(), 150)
		closeJournal(t, j)
		var files []string
		_ = filepath.WalkDir(filepath.Join(dir, "store"), func(p string, d os.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() && strings.Contains(p, "/mcptrack/") {
				files = append(files, p)
			}
			return nil
		})
		file := files[rng.IntN(len(files))]
		change(t, file, func(b []byte) []byte {
			if len(b) == 0 {
				return []byte{1}
			}
			at := rng.IntN(len(b))
			switch round % 3 {
			case 0:
				b[at] ^= byte(1 + rng.IntN(255))
			case 1:
				b = b[:at]
			case 2:
				b = nil
			}
			return b
		})
		j, err := Open(t.Context(), Options{Dir: dir, Logger: testLog(t)})
		if err != nil {
			t.Errorf("%s damaged: %v", filepath.Base(file), err)
			continue
		}
		there, missing := truthful(t, read(t, j, 0), true)
		t.Logf("%s (%d): %d there, %d reported missing, epoch kept: %v", filepath.Base(file), round%3, there, missing, j.Epoch() == epoch)
		if there+missing != 150 && j.Epoch() == epoch {
			t.Errorf("%d are neither there nor reported missing", 150-there-missing)
		}
		appendN(t, j, newSource(), 2)
		closeJournal(t, j)
	}
}

// TestShorterLogBeginsAnEpoch cuts the end off: its numbers will be given out
// again, so they must not be the ids that somebody has seen.
func TestShorterLogBeginsAnEpoch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	epoch := j.Epoch()
	appendN(t, j, newSource(), 100)
	closeJournal(t, j)
	change(t, blocks(t, dir)[0], func(b []byte) []byte { return b[:len(b)*2/3] })
	for _, index := range []string{"index.db"} {
		_ = os.Remove(filepath.Join(filepath.Dir(blocks(t, dir)[0]), index))
	}
	j = open(t, Options{Dir: dir})
	e := appendN(t, j, newSource(), 1)
	if e.Seq > 100 {
		t.Fatalf("the log goes on with %s: nothing was cut", e.ID)
	}
	if j.Epoch() == epoch {
		t.Error("the same epoch, so an id names two events")
	}
	r, err := j.Resume(t.Context(), event.FormatID(epoch, 90))
	if err != nil || r.Gap == nil || r.Gap.Reason != ReasonEpoch {
		t.Errorf("resumed with %+v, %v", r, err)
	}
}

func TestUnreadableLogIsSetAside(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	j := open(t, Options{Dir: dir})
	epoch := j.Epoch()
	appendN(t, j, newSource(), 10)
	closeJournal(t, j)
	meta := filepath.Join(filepath.Dir(filepath.Dir(blocks(t, dir)[0])), "meta.inf")
	change(t, meta, func([]byte) []byte { return []byte("{garbage") })
	j = open(t, Options{Dir: dir})
	if j.Epoch() == epoch || j.Stats().Damages == 0 {
		t.Errorf("epoch kept: %v, %+v", j.Epoch() == epoch, j.Stats())
	}
	if _, err := os.Stat(filepath.Join(dir, "store.damaged-1")); err != nil {
		t.Errorf("what there was is gone: %v", err)
	}
	if e := appendN(t, j, newSource(), 5); e.Seq != 5 {
		t.Errorf("goes on with %s", e.ID)
	}
}

// TestShorterLogOfAKilledRun: what readers saw is known up to the last event, however
// short the time since.
func TestShorterLogOfAKilledRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd, out := startChild(t, "append", dir)
	last := ""
	for n := 0; n < 300 && out.Scan(); n++ {
		_, last, _ = strings.Cut(out.Text(), " ")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	epoch, seq, err := event.ParseID(last)
	if err != nil {
		t.Fatal(err)
	}
	change(t, blocks(t, dir)[0], func(b []byte) []byte { return b[:bytes.Index(b, fmt.Appendf(nil, `"name":"n%d"`, seq-20))] })
	_ = os.Remove(filepath.Join(filepath.Dir(blocks(t, dir)[0]), "index.db"))
	j := open(t, Options{Dir: dir})
	if e := appendN(t, j, newSource(), 1); e.Seq > seq {
		t.Fatalf("the log continues with %s: nothing was cut", e.ID)
	}
	if j.Epoch() == epoch {
		t.Error("the same epoch, so an id names two events")
	}
}

// TestShorterLogOfAServer: a NATS server comes back with less than it acknowledged.
func TestShorterLogOfAServer(t *testing.T) {
	t.Parallel()
	server := journaltest.Start(t, t.TempDir())
	j := open(t, Options{URL: server.URL, Replicas: 1})
	epoch := j.Epoch()
	appendN(t, j, newSource(), 100)
	server.Stop()
	block := blocksOf(t, server.Dir)[0]
	change(t, block, func(b []byte) []byte { return b[:len(b)*2/3] })
	_ = os.Remove(filepath.Join(filepath.Dir(block), "index.db"))
	server.Start()
	eventually(t, "a new epoch", time.Minute, func() bool { return j.Epoch() != epoch })
	if e := appendN(t, j, newSource(), 1); e.Seq > 100 {
		t.Fatalf("the log continues with %s: nothing was cut", e.ID)
	}
}
