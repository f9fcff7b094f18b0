package sqlitelog

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// filled creates and closes a log with n events, and returns its directory and epoch.
func filled(t *testing.T, n int) (dir, epoch string) {
	t.Helper()
	dir = t.TempDir()
	l := open(t, Options{Dir: dir, KeepContent: 1 << 20})
	journaltest.AppendN(t, l, new(journaltest.Source), n)
	for i := range 10 {
		l.Contents().Put(journaltest.Digest(uint64(i+1)), strings.Repeat(fmt.Sprint("text ", i), 100))
	}
	epoch = l.Epoch()
	closeLog(t, l)
	return dir, epoch
}

func events(dir string) string { return filepath.Join(dir, "events.db") }

// change replaces the content of a file, which keeps its inode.
func change(t *testing.T, file string, f func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, f(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// truthful fails if an entry is not what was appended under its number. It returns how many events
// are there and how many were reported missing.
func truthful(t *testing.T, entries []journal.Entry) (there, missing int) {
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
			t.Fatalf("%s: %v", e.Data(), err)
		}
		if u := ev.Payload.(event.ResourceUpdated); u.Name != fmt.Sprintf("n%d", e.Seq) || u.Digest != journaltest.Digest(e.Seq) {
			t.Fatalf("served as truth: %s", e.Data())
		}
		there++
		next++
	}
	return there, missing
}

// The test flips bits at random places, truncates the file, and overwrites pages. The log opens, it can be
// read, and it continues with a number that was not used.
func TestRandomDamage(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	const n = 400
	pristine, _ := filled(t, n)
	image, err := os.ReadFile(events(pristine))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for round := range 240 {
		if testing.Short() && round%20 > 0 {
			continue
		}
		b := bytes.Clone(image)
		at := rng.IntN(len(b))
		switch {
		case round < 200:
			b[at] ^= byte(1 << rng.IntN(8))
		case round < 220:
			b = b[:at]
		default:
			clear(b[at&^4095 : min(at&^4095+4096, len(b))])
		}
		err := os.WriteFile(events(dir), b, 0o600)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "lock"), fmt.Appendf(nil, "1\n0123456789abcdef-%d\n", n), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		l, err := Open(t.Context(), Options{Dir: dir, KeepContent: 1 << 20})
		if err != nil {
			t.Errorf("seed %d, round %d, damaged at %d: %v", seed, round, at, err)
			continue
		}
		if _, err = readOnce(t, l); errors.Is(err, journal.ErrEpoch) { // found while reading
			_, err = readOnce(t, l)
		}
		if err == nil {
			_, err = l.States(t.Context(), "")
		}
		if err != nil {
			t.Errorf("seed %d, round %d, damaged at %d: %v", seed, round, at, err)
		}
		if e := journaltest.Append(t, l, new(journaltest.Source).Next(journaltest.URI(1))); e.Seq <= n {
			t.Errorf("seed %d, round %d, damaged at %d: stored as %s", seed, round, at, e.ID)
		}
		closeLog(t, l)
		found, _ := filepath.Glob(filepath.Join(dir, "events.db*"))
		remove(t, found...)
	}
}

func readOnce(t *testing.T, l *Log) (entries []journal.Entry, err error) {
	t.Helper()
	for e, err := range l.Read(t.Context(), 0) {
		if err != nil {
			return entries, err
		}
		entries = append(entries, e)
	}
	return entries, nil
}

// A damaged file is set aside, whether the damage is found at the start or while the log is used. The log
// begins anew, and its numbers continue; whoever has an id of the old log is told of a gap. Nothing else is
// set aside, and the next start continues the new log.
func TestDamagedFileIsSetAside(t *testing.T) {
	t.Parallel()
	const n = 600
	overwritten := func(where func(t *testing.T, dir string, b []byte) int) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			change(t, events(dir), func(b []byte) []byte {
				copy(b[where(t, dir, b):], bytes.Repeat([]byte{0xa5}, 4096))
				return b
			})
		}
	}
	changed := func(statement string) func(*testing.T, string) {
		return func(t *testing.T, dir string) { sql(t, dir, statement) }
	}
	for name, tt := range map[string]struct {
		harm    func(t *testing.T, dir string)
		running bool // it is also found while the log is used
	}{
		"a page in the middle": {overwritten(func(t *testing.T, _ string, b []byte) int {
			before, _, found := bytes.Cut(b, []byte(`"name":"n300"`))
			if !found {
				t.Fatal("the event is not in the file")
			}
			return len(before) &^ 4095
		}), true},
		"a number in the middle": {func(t *testing.T, dir string) {
			change(t, events(dir), func(b []byte) []byte {
				before, _, _ := bytes.Cut(b, []byte(`"name":"n300"`))
				copy(b[bytes.LastIndex(before, []byte{0x82, 300 & 0x7f}):], []byte{0x81}) // now 172, as SQLite encodes it
				return b
			})
		}, true},
		"the root of events": {overwritten(func(t *testing.T, dir string, _ []byte) int { return rootOf(t, dir, "events") }), true},
		"the header":         {overwritten(func(*testing.T, string, []byte) int { return 0 }), false},
		"truncated":          {func(t *testing.T, dir string) { change(t, events(dir), func(b []byte) []byte { return b[:len(b)/3] }) }, true},
		"emptied":            {func(t *testing.T, dir string) { change(t, events(dir), func([]byte) []byte { return nil }) }, true},
		"garbage": {func(t *testing.T, dir string) {
			change(t, events(dir), func([]byte) []byte { return bytes.Repeat([]byte("garbage "), 1000) })
		}, false},
		"tables of others": {func(t *testing.T, dir string) {
			remove(t, events(dir))
			sql(t, dir, "CREATE TABLE log (a)")
		}, false},
		"a table is missing":          {changed("DROP TABLE states"), false},
		"a column is missing":         {changed("ALTER TABLE contents DROP COLUMN size"), false},
		"an unknown version":          {changed("PRAGMA user_version = 9"), false},
		"no row":                      {changed("DELETE FROM log"), true},
		"an impossible row":           {changed(fmt.Sprint("UPDATE log SET last = ", math.MaxInt64)), true},
		"an event with a high number": {changed(fmt.Sprint("UPDATE events SET seq = ", math.MaxInt64, " WHERE seq = 300")), false},
	} {
		for _, running := range []bool{false, true} {
			if running && !tt.running {
				continue
			}
			t.Run(fmt.Sprintf("%s, running=%v", name, running), func(t *testing.T) {
				t.Parallel()
				dir, epoch := filled(t, n)
				opts := Options{Dir: dir, KeepContent: 1 << 20, check: time.Minute}
				var l *Log
				if running {
					l = open(t, opts)
				}
				if tt.harm(t, dir); running {
					journaltest.Eventually(t, noticed, "it is found", func() bool {
						_, err := readOnce(t, l) // it has to look into the file
						return errors.Is(err, journal.ErrEpoch) || l.Epoch() != epoch
					})
				} else {
					l = open(t, opts)
				}
				check := func(stored int) {
					t.Helper()
					if entries := journaltest.ReadAll(t, l, n+1); len(entries) != stored {
						t.Errorf("%d entries", len(entries))
					}
					b, err := l.Bounds(t.Context())
					if err != nil || b.First != n+1 || b.Last != n+uint64(stored) || b.Epoch == epoch || l.Err() != nil {
						t.Errorf("bounds %+v, epoch was %s, %v, %v", b, epoch, err, l.Err())
					}
					st, err := l.States(t.Context(), "")
					if err != nil || len(st.Resources) != stored {
						t.Errorf("%d states, %v", len(st.Resources), err)
					}
					r, err := l.Resume(t.Context(), event.FormatID(epoch, 90))
					if err != nil || r.Gap == nil || r.Gap.Reason != journal.ReasonEpoch {
						t.Errorf("resumed with %+v, %v", r, err)
					}
					if aside, _ := filepath.Glob(events(dir) + ".damaged-*"); len(aside) == 0 || aside[0] != events(dir)+".damaged-1" || slices.Contains(aside, events(dir)+".damaged-2") {
						t.Errorf("set aside are %q", aside)
					}
				}
				check(0)
				if l.Stats().Damages == 0 {
					t.Error("nothing counts it")
				}
				if e := journaltest.AppendN(t, l, new(journaltest.Source), 3); e.Seq != n+3 {
					t.Errorf("continues with %s", e.ID)
				}
				check(3)
				now := l.Epoch()
				closeLog(t, l)
				if l = open(t, opts); l.Epoch() != now || l.Stats().Damages != 0 {
					t.Errorf("epoch %s was %s, %+v", l.Epoch(), now, l.Stats())
				}
				check(3)
			})
		}
	}
}

// rootOf returns where the first page of a table begins.
func rootOf(t *testing.T, dir, table string) int {
	t.Helper()
	c, err := sqlite.OpenConn(events(dir), sqlite.OpenReadOnly)
	if err != nil {
		t.Fatal(err)
	}
	root, err := number(c, "SELECT rootpage FROM sqlite_schema WHERE name = ?", table)
	if err = errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	return int(root-1) * 4096
}

// Damage that a reader found in a replaced file does not set the current one aside.
func TestLateSuspicion(t *testing.T) {
	t.Parallel()
	dir, epoch := filled(t, 10)
	l, w := idle(t, Options{Dir: dir})
	l.suspected.Store(&suspicion{&file{}, errDamaged})
	if err := w.ready(); err != nil || w.row.epoch != epoch || l.Stats().Damages != 0 {
		t.Errorf("epoch %s was %s, %+v, %v", w.row.epoch, epoch, l.Stats(), err)
	}
	l.suspected.Store(&suspicion{w.file, errDamaged})
	if err := w.ready(); err != nil || w.row.epoch == epoch || l.Stats().Damages == 0 {
		t.Errorf("epoch %s was %s, %+v, %v", w.row.epoch, epoch, l.Stats(), err)
	}
}

// setLog changes the row of log to what a run of mcptrack may have left.
func setLog(t *testing.T, dir string, f func(*logRow)) {
	t.Helper()
	c, err := sqlite.OpenConn(events(dir), sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	row, err := readLog(c)
	if f(&row); err == nil {
		err = writeLog(c, row)
	}
	if err = errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
}

// sql changes the file as sqlite3 may.
func sql(t *testing.T, dir, statement string) {
	t.Helper()
	c, err := sqlite.OpenConn(events(dir), sqlite.OpenReadWrite|sqlite.OpenCreate)
	if err == nil {
		err = errors.Join(run(c, statement), c.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Whatever may make an id name two events begins a new epoch, in which numbers continue; and
// nothing else does.
func TestEpochs(t *testing.T) {
	t.Parallel()
	const n = 50
	for name, tt := range map[string]struct {
		durability journal.Durability
		do         func(t *testing.T, dir string)
		keeps      bool
		missing    int
	}{
		"nothing": {journal.Always, func(*testing.T, string) {}, true, 0},
		"a copy": {journal.Always, func(t *testing.T, dir string) {
			b, err := os.ReadFile(events(dir))
			if err == nil {
				err = errors.Join(os.WriteFile(events(dir)+".copy", b, 0o600), os.Rename(events(dir)+".copy", events(dir)))
			}
			if err != nil {
				t.Fatal(err)
			}
		}, false, 0},
		"a directory that was renamed": {journal.Always, func(t *testing.T, dir string) {
			if err := errors.Join(os.Rename(dir, dir+"2"), os.Rename(dir+"2", dir)); err != nil {
				t.Fatal(err)
			}
		}, true, 0},
		"the end is gone":    {journal.Always, func(t *testing.T, dir string) { sql(t, dir, "DELETE FROM events WHERE seq > 40") }, false, 10},
		"the middle is gone": {journal.Always, func(t *testing.T, dir string) { sql(t, dir, "DELETE FROM events WHERE seq BETWEEN 10 AND 14") }, true, 5},
		"all is gone":        {journal.Always, func(t *testing.T, dir string) { sql(t, dir, "DELETE FROM events") }, false, -1},
		"a crash, synced":    {journal.Always, func(t *testing.T, dir string) { setLog(t, dir, func(r *logRow) { r.clean, r.boot = false, "another" }) }, true, 0},
		"a crash":            {journal.Interval, func(t *testing.T, dir string) { setLog(t, dir, func(r *logRow) { r.clean, r.boot = false, "another" }) }, false, 0},
		"a kill":             {journal.Interval, func(t *testing.T, dir string) { setLog(t, dir, func(r *logRow) { r.clean = false }) }, bootID() != "", 0},
		"a clean reboot":     {journal.Interval, func(t *testing.T, dir string) { setLog(t, dir, func(r *logRow) { r.boot = "another" }) }, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			l := open(t, Options{Dir: dir, Durability: tt.durability})
			s := new(journaltest.Source)
			journaltest.AppendN(t, l, s, n)
			epoch := l.Epoch()
			closeLog(t, l)
			tt.do(t, dir)
			l = open(t, Options{Dir: dir, Durability: tt.durability})
			if (l.Epoch() == epoch) != tt.keeps {
				t.Errorf("epoch kept: %v", l.Epoch() == epoch)
			}
			if e := journaltest.AppendN(t, l, s, 1); e.Seq != n+1 {
				t.Errorf("continues with %s", e.ID)
			}
			there, missing := truthful(t, journaltest.ReadAll(t, l, 0))
			if want := tt.missing; want >= 0 && (missing != want || there != n+1-want) || want < 0 && missing+there != n+1 {
				t.Errorf("%d there, %d missing", there, missing)
			}
			now := l.Epoch()
			closeLog(t, l)
			if l = open(t, Options{Dir: dir, Durability: tt.durability}); l.Epoch() != now {
				t.Error("another new epoch at the next start")
			}
		})
	}
}

// An older mcptrack rejects a newer format, and changes nothing.
func TestNewerFormatIsNotTouched(t *testing.T) {
	t.Parallel()
	dir, _ := filled(t, 3)
	sql(t, dir, "UPDATE log SET version = 99")
	sql(t, dir, "PRAGMA user_version = 99")
	for _, existing := range []bool{false, true} {
		_, err := Open(t.Context(), Options{Dir: dir, Existing: existing})
		if err == nil || !strings.Contains(err.Error(), "format") {
			t.Errorf("existing %v: %v", existing, err)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "*damaged*")); len(found) > 0 {
		t.Error(found)
	}
}

// The file is deleted or replaced while the log is used: Err says so until another file is in use,
// followers learn that the log is another one, and no id is used twice.
func TestFileIsDeletedOrReplaced(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		do    func(t *testing.T, dir string)
		there int // of the 101 events
		first uint64
	}{
		"deleted":          {func(t *testing.T, dir string) { remove(t, events(dir)) }, 1, 101},
		"deleted with all": {func(t *testing.T, dir string) { remove(t, events(dir), events(dir)+"-wal", events(dir)+"-shm") }, 1, 101},
		"replaced": {func(t *testing.T, dir string) {
			if err := os.Rename(events(dir)+".backup", events(dir)); err != nil {
				t.Fatal(err)
			}
		}, 61, 1},
		"directory replaced": {func(t *testing.T, dir string) {
			if err := errors.Join(os.Rename(dir, dir+".gone"), os.Mkdir(dir, 0o700)); err != nil {
				t.Fatal(err)
			}
		}, 1, 101},
		"directory deleted": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}, 1, 101},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			l := open(t, Options{Dir: dir})
			s := new(journaltest.Source)
			journaltest.AppendN(t, l, s, 60)
			closeLog(t, l)
			b, err := os.ReadFile(events(dir))
			if err == nil {
				err = os.WriteFile(events(dir)+".backup", b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			l = open(t, Options{Dir: dir})
			journaltest.AppendN(t, l, s, 40)
			epoch := l.Epoch()
			f := startFollow(t, l, 100)
			tt.do(t, dir)
			if err := <-f.ended; !errors.Is(err, journal.ErrEpoch) {
				t.Errorf("Follow ended with %v", err)
			}
			if l.Epoch() == epoch || l.Stats().Damages == 0 {
				t.Errorf("epoch kept: %v, %+v", l.Epoch() == epoch, l.Stats())
			}
			e := journaltest.AppendN(t, l, s, 1)
			if e.Seq != 101 {
				t.Errorf("continues with %s", e.ID)
			}
			if b, err := l.Bounds(t.Context()); err != nil || b.First != tt.first || b.Last != 101 {
				t.Errorf("bounds %+v, %v", b, err)
			}
			if st, err := l.States(t.Context(), ""); err != nil || len(st.Resources) != min(tt.there, 60) {
				t.Errorf("%d states, %v", len(st.Resources), err)
			}
			if l.Err() != nil {
				t.Error(l.Err())
			}
			now := l.Epoch()
			closeLog(t, l)
			l = open(t, Options{Dir: dir})
			there, missing := truthful(t, journaltest.ReadAll(t, l, 0))
			if l.Epoch() != now || there+missing != 101 || there != tt.there {
				t.Errorf("epoch %s was %s, %d entries, %d missing", l.Epoch(), now, there, missing)
			}
		})
	}
}

// noticed is how soon a fault is noticed, on a busy machine.
const noticed = time.Minute

// logged keeps the lines of a log. Its methods may be called from several goroutines.
type logged struct {
	mu    sync.Mutex // guards lines
	lines []string
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, string(b))
	return len(b), nil
}

// errors returns the lines of level ERROR.
func (l *logged) errors() (out []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, "level=ERROR") {
			out = append(out, line)
		}
	}
	return out
}

// The files beside events.db are deleted while in use. That is noticed and logged once, and nothing
// is lost, even if the process is killed later.
func TestFilesBesideAreDeleted(t *testing.T) {
	t.Parallel()
	for name, suffixes := range map[string][]string{"wal": {"events.db-wal"}, "shm": {"events.db-shm"}, "both": {"events.db-wal", "events.db-shm"}, "lock": {"lock"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, lines := filepath.Join(t.TempDir(), "data"), new(logged)
			l := open(t, Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(lines, nil))})
			s := new(journaltest.Source)
			journaltest.AppendN(t, l, s, 100)
			epoch := l.Epoch()
			journaltest.ReadAll(t, l, 50) // so that readers have it open
			if cmd, out := startChild(t, "read", dir); !out.Scan() || out.Text() != "100" {
				t.Fatalf("another process reads %q", out.Text())
			} else {
				defer func() {
					_ = cmd.Process.Kill()
					_ = cmd.Wait() // killed
				}()
			}
			for _, suffix := range suffixes {
				remove(t, filepath.Join(dir, suffix))
			}
			journaltest.Eventually(t, noticed, "an error is logged", func() bool { return len(lines.errors()) > 0 })
			journaltest.Eventually(t, noticed, "the log works again", func() bool { return l.Err() == nil })
			journaltest.AppendN(t, l, s, 5)
			journaltest.InOrder(t, journaltest.ReadAll(t, l, 1), epoch, 1, 105)
			if got := lines.errors(); len(got) != 1 || !strings.Contains(got[0], suffixes[0]) || !strings.Contains(got[0], "was deleted or replaced while mcptrack was using it") {
				t.Errorf("logged: %q", got)
			}
			if _, err := Open(t.Context(), Options{Dir: dir}); !errors.Is(err, journal.ErrLocked) {
				t.Errorf("another process opens it: %v", err)
			}
			killed := filepath.Join(t.TempDir(), "killed") // as a kill leaves it
			if err := os.CopyFS(killed, os.DirFS(dir)); err != nil {
				t.Fatal(err)
			}
			if err := os.Chmod(killed, 0o700); err != nil {
				t.Fatal(err)
			}
			if there, missing := truthful(t, journaltest.ReadAll(t, open(t, Options{Dir: killed}), 1)); there != 105 || missing != 0 {
				t.Errorf("after a kill %d are there, %d missing", there, missing)
			}
		})
	}
}

func remove(t *testing.T, files ...string) {
	t.Helper()
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
}

// A valid file that no longer has events that were seen does not give their ids to others. The lock
// proves that only if it can be read.
func TestLostEnd(t *testing.T) {
	t.Parallel()
	over := func(t *testing.T, dir string, older []byte) {
		change(t, events(dir), func([]byte) []byte { return older })
	}
	lock := func(text string) func(t *testing.T, dir string, older []byte) {
		return func(t *testing.T, dir string, _ []byte) {
			change(t, filepath.Join(dir, "lock"), func([]byte) []byte { return []byte(text) })
		}
	}
	for name, tt := range map[string]struct {
		do    func(t *testing.T, dir string, older []byte)
		keeps bool
		there int
	}{
		"an older copy is written over it":       {over, false, 20},
		"it is deleted":                          {func(t *testing.T, dir string, _ []byte) { remove(t, events(dir)) }, false, 0},
		"the lock is deleted":                    {func(t *testing.T, dir string, _ []byte) { remove(t, filepath.Join(dir, "lock")) }, true, 50},
		"the lock is empty":                      {lock(""), true, 50},
		"the lock is garbage":                    {lock(strings.Repeat("garbage\n", 99)), true, 50},
		"the lock has a number beyond all":       {lock("1\n0123456789abcdef-18446744073709551615\n"), true, 50},
		"the lock is of an mcptrack without ids": {lock("12345\n"), true, 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := new(journaltest.Source)
			l := open(t, Options{Dir: dir})
			journaltest.AppendN(t, l, s, 20)
			closeLog(t, l)
			older, err := os.ReadFile(events(dir))
			if err != nil {
				t.Fatal(err)
			}
			l = open(t, Options{Dir: dir})
			journaltest.AppendN(t, l, s, 30)
			epoch := l.Epoch()
			closeLog(t, l)
			tt.do(t, dir, older)
			l = open(t, Options{Dir: dir})
			if (l.Epoch() == epoch) != tt.keeps || (l.Stats().Damages == 0) != tt.keeps {
				t.Errorf("epoch %s was %s, %+v", l.Epoch(), epoch, l.Stats())
			}
			there, missing := truthful(t, journaltest.ReadAll(t, l, 0))
			if want := 50 - tt.there; there != tt.there || tt.there > 0 && !tt.keeps && missing != want {
				t.Errorf("%d there, %d missing", there, missing)
			}
			if e := journaltest.AppendN(t, l, s, 1); !tt.keeps && e.Seq != 51 {
				t.Errorf("continues with %s", e.ID)
			}
			now := l.Epoch()
			closeLog(t, l)
			if l = open(t, Options{Dir: dir}); l.Epoch() != now {
				t.Error("another new epoch at the next start")
			}
		})
	}
}

// Events that were only in the events.db-wal of a killed process are lost with it, but not their
// ids.
func TestLostWAL(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(b []byte) []byte{
		"cut":     func(b []byte) []byte { return b[:len(b)/3] },
		"flipped": func(b []byte) []byte { b[len(b)/3] ^= 1; return b },
		"empty":   func([]byte) []byte { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			closeLog(t, open(t, Options{Dir: dir})) // so that events.db has the tables
			cmd, out := startChild(t, "append", dir)
			last := ""
			for n := 0; n < 500 && out.Scan(); n++ {
				_, last, _ = strings.Cut(out.Text(), " ")
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // killed
			change(t, events(dir)+"-wal", harm)
			epoch, seq, err := event.ParseID(last)
			if err != nil {
				t.Fatal(err)
			}
			l := open(t, Options{Dir: dir})
			if l.Epoch() == epoch || l.Stats().Damages != 1 {
				t.Errorf("epoch kept: %v, %+v", l.Epoch() == epoch, l.Stats())
			}
			if e := journaltest.AppendN(t, l, new(journaltest.Source), 1); e.Seq <= seq {
				t.Errorf("%s follows %s", e.ID, last)
			}
		})
	}
}
