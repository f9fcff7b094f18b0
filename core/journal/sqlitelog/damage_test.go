package sqlitelog

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
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
	if _, err := l.Records("things").Put(t.Context(), journal.Record{Key: "a", Value: []byte("1")}); err != nil {
		t.Fatal(err)
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

// truthfulRest fails if a state, text or record is not one that filled has stored.
func truthfulRest(t *testing.T, l *Log, n int) {
	t.Helper()
	st, err := l.States(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for r, s := range st.Resources {
		seq := uint64(s.Size)
		if s.Digest != journaltest.Digest(seq) || r.URI != journaltest.URI(int(seq-1)%100) || seq > uint64(n) || s.MimeType != "text/plain" {
			t.Errorf("the state of %v is %+v", r, s)
		}
	}
	for i := range 10 {
		text, ok, err := l.Contents().Get(t.Context(), journaltest.Digest(uint64(i+1)))
		if err != nil || ok && text != strings.Repeat(fmt.Sprint("text ", i), 100) {
			t.Errorf("text %d is %.20q, %v", i, text, err)
		}
	}
	if rec, err := l.Records("things").Get(t.Context(), "a"); err != nil || rec.Value != nil && string(rec.Value) != "1" {
		t.Errorf("the record is %+v, %v", rec, err)
	}
}

// TestFlippedByteIsNeverServed flips one byte in the middle of an event.
func TestFlippedByteIsNeverServed(t *testing.T) {
	t.Parallel()
	const n = 200
	dir, epoch := filled(t, n)
	change(t, events(dir), func(b []byte) []byte {
		i := bytes.Index(b, []byte(`"name":"n100"`))
		if i < 0 {
			t.Fatal("the event is not where it is expected")
		}
		b[i+9] ^= 4
		return b
	})
	l := open(t, Options{Dir: dir})
	there, missing := truthful(t, journaltest.ReadAll(t, l, 0))
	if there != n-1 || missing != 1 || l.Epoch() != epoch || l.Stats().Damages != 1 {
		t.Errorf("%d there, %d reported missing, epoch %s was %s, %+v", there, missing, l.Epoch(), epoch, l.Stats())
	}
	count := 0
	for _, err := range l.Select(t.Context(), journal.Selection{ServerID: "docs"}) {
		if count++; err != nil {
			t.Error(err)
		}
	}
	if count != n-1 {
		t.Errorf("%d entries are selected", count)
	}
	if e := journaltest.AppendN(t, l, new(journaltest.Source), 3); e.Seq != n+3 {
		t.Errorf("continues with %s", e.ID)
	}
}

// TestRandomDamage flips bits at random places, in a closed file and in the file of a killed process,
// truncates it, and overwrites pages. Nothing wrong is ever served, what is missing is reported,
// and the log continues.
func TestRandomDamage(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	const n = 400
	pristine, epoch := filled(t, n)
	image, err := os.ReadFile(events(pristine))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	lost, whole := 0, 0
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
		if err := os.WriteFile(events(dir), b, 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Open(t.Context(), Options{Dir: dir, KeepContent: 1 << 20})
		if err != nil {
			t.Errorf("seed %d, round %d, damaged at %d: %v", seed, round, at, err)
			continue
		}
		entries, err := readOnce(t, l)
		if errors.Is(err, journal.ErrEpoch) { // found while reading
			entries, err = readOnce(t, l)
		}
		if err != nil {
			t.Errorf("seed %d, round %d, damaged at %d: %v", seed, round, at, err)
		}
		there, missing := truthful(t, entries)
		if there == n {
			whole++
		}
		lost += n - there
		if there+missing != n && l.Epoch() == epoch {
			t.Errorf("seed %d, round %d, damaged at %d: %d there and %d reported missing", seed, round, at, there, missing)
		}
		truthfulRest(t, l, n)
		e, err := l.Store(t.Context(), new(journaltest.Source).Next(journaltest.URI(1)))
		if err != nil || e.Seq <= uint64(there) {
			t.Errorf("seed %d, round %d, damaged at %d: stored as %s, %v", seed, round, at, e.ID, err)
		}
		closeLog(t, l)
		found, _ := filepath.Glob(filepath.Join(dir, "events.db*"))
		remove(t, found...)
	}
	t.Logf("%d of 240 damages cost nothing, %d events were lost on average", whole, lost/240)
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

// pageOf returns where the leaf page with an event begins.
func pageOf(t *testing.T, b []byte, event string) int {
	t.Helper()
	i := bytes.Index(b, []byte(event))
	if i < 0 {
		t.Fatalf("%s is not in the file", event)
	}
	return i &^ 4095
}

// Everything on other pages is copied to a new file, even if the damage is found only while the log
// is used.
func TestUnreadablePageIsRescued(t *testing.T) {
	t.Parallel()
	for _, when := range []string{"before the start", "by a reader"} {
		t.Run(when, func(t *testing.T) {
			t.Parallel()
			const n = 600
			dir, epoch := filled(t, n)
			opts := Options{Dir: dir, KeepContent: 1 << 20}
			if when == "before the start" {
				harm(t, dir, "n300")
			}
			l := open(t, opts)
			if when == "by a reader" {
				harm(t, dir, "n300")
				if entries, err := readOnce(t, l); !errors.Is(err, journal.ErrEpoch) {
					t.Fatalf("%d entries, %v", len(entries), err)
				}
			}
			if l.Epoch() == epoch || l.Stats().Damages == 0 || l.Err() != nil {
				t.Errorf("epoch %s was %s, %+v, %v", l.Epoch(), epoch, l.Stats(), l.Err())
			}
			entries, err := readOnce(t, l)
			if err != nil {
				t.Fatal(err)
			}
			there, missing := truthful(t, entries)
			if there+missing != n || missing > 20 || missing == 0 {
				t.Errorf("%d there, %d missing", there, missing)
			}
			truthfulRest(t, l, n)
			if st, err := l.States(t.Context(), ""); err != nil || len(st.Resources) != 100 {
				t.Errorf("%d states, %v", len(st.Resources), err)
			}
			if _, err := os.Stat(events(dir) + ".damaged-1"); err != nil {
				t.Error(err)
			}
			r, err := l.Resume(t.Context(), event.FormatID(epoch, 90))
			if err != nil || r.Gap == nil || r.Gap.Reason != journal.ReasonEpoch {
				t.Errorf("resumed with %+v, %v", r, err)
			}
			now := l.Epoch()
			closeLog(t, l)
			if l = open(t, opts); l.Epoch() != now {
				t.Error("another new epoch at the next start")
			}
		})
	}
}

// harm overwrites the page with the event of that name.
func harm(t *testing.T, dir, name string) {
	t.Helper()
	change(t, events(dir), func(b []byte) []byte {
		return overwrite(b, pageOf(t, b, fmt.Sprintf(`"name":%q`, name)))
	})
}

// overwrite overwrites the page that begins at that offset.
func overwrite(b []byte, at int) []byte {
	copy(b[at:], bytes.Repeat([]byte{0xa5}, 4096))
	return b
}

// Damage that a reader found in a replaced file is no reason to replace the current one.
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

// Garbage and foreign tables are set aside.
func TestUnreadableFileIsSetAside(t *testing.T) {
	t.Parallel()
	for name, harm := range map[string]func(t *testing.T, dir string){
		"garbage": func(t *testing.T, dir string) {
			change(t, events(dir), func([]byte) []byte { return bytes.Repeat([]byte("garbage "), 1000) })
		},
		"tables of others": func(t *testing.T, dir string) {
			_ = os.Remove(events(dir))
			sql(t, dir, "CREATE TABLE log (a)")
		},
		"a table is missing": func(t *testing.T, dir string) { sql(t, dir, "DROP TABLE states") },
		"a column is missing": func(t *testing.T, dir string) {
			sql(t, dir, "ALTER TABLE contents DROP COLUMN size")
		},
		"no row": func(t *testing.T, dir string) { sql(t, dir, "DELETE FROM log") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, epoch := filled(t, 10)
			harm(t, dir)
			l := open(t, Options{Dir: dir})
			if l.Epoch() == epoch || l.Stats().Damages == 0 {
				t.Errorf("epoch kept: %v, %+v", l.Epoch() == epoch, l.Stats())
			}
			if _, err := os.Stat(events(dir) + ".damaged-1"); err != nil {
				t.Errorf("what there was is gone: %v", err)
			}
			there, _ := truthful(t, journaltest.ReadAll(t, l, 0))
			if rescued := strings.HasSuffix(name, "missing") || name == "no row"; rescued != (there == 10) {
				t.Errorf("%d events were rescued", there)
			}
			journaltest.AppendN(t, l, new(journaltest.Source), 5)
		})
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
		"a crash":            {journal.OS, func(t *testing.T, dir string) { setLog(t, dir, func(r *logRow) { r.clean, r.boot = false, "another" }) }, false, 0},
		"a crash, interval":  {journal.Interval, func(t *testing.T, dir string) { setLog(t, dir, func(r *logRow) { r.clean, r.boot = false, "another" }) }, false, 0},
		"a kill":             {journal.OS, func(t *testing.T, dir string) { setLog(t, dir, func(r *logRow) { r.clean = false }) }, bootID() != "", 0},
		"a clean reboot":     {journal.OS, func(t *testing.T, dir string) { setLog(t, dir, func(r *logRow) { r.boot = "another" }) }, true, 0},
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

// The next start finishes whatever an interrupted rescue leaves.
func TestInterruptedRescue(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(dir string) error{
		"nothing copied": func(dir string) error { return os.WriteFile(events(dir)+".new", nil, 0o600) },
		"copied":         func(dir string) error { return os.Rename(events(dir)+".whole", events(dir)+".new") },
		"moved aside": func(dir string) error {
			return errors.Join(os.Rename(events(dir)+".whole", events(dir)+".new"), os.Rename(events(dir), events(dir)+".damaged-1"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, epoch := filled(t, 30)
			whole, rescued := filled(t, 30)
			if err := os.Rename(events(whole), events(dir)+".whole"); err != nil {
				t.Fatal(err)
			}
			if err := leave(dir); err != nil {
				t.Fatal(err)
			}
			want := rescued
			if name == "nothing copied" {
				want = epoch
			}
			l := open(t, Options{Dir: dir})
			if there, _ := truthful(t, journaltest.ReadAll(t, l, 0)); there != 30 || l.Epoch() != want {
				t.Errorf("%d events, epoch %s, want %s", there, l.Epoch(), want)
			}
			if _, err := os.Stat(events(dir) + ".new"); err == nil {
				t.Error("events.db.new is left")
			}
		})
	}
}

// The file is deleted or replaced while the log is used: Err says so until another file is in use,
// followers learn that the log is another one, and no id is used twice.
func TestFileIsDeletedOrReplaced(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		do    func(t *testing.T, dir string)
		there int // of the 101 events
	}{
		"deleted":          {func(t *testing.T, dir string) { remove(t, events(dir)) }, 1},
		"deleted with all": {func(t *testing.T, dir string) { remove(t, events(dir), events(dir)+"-wal", events(dir)+"-shm") }, 1},
		"replaced": {func(t *testing.T, dir string) {
			if err := os.Rename(events(dir)+".backup", events(dir)); err != nil {
				t.Fatal(err)
			}
		}, 61},
		"directory replaced": {func(t *testing.T, dir string) {
			if err := errors.Join(os.Rename(dir, dir+".gone"), os.Mkdir(dir, 0o700)); err != nil {
				t.Fatal(err)
			}
		}, 1},
		"directory deleted": {func(t *testing.T, dir string) {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
		}, 1},
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
			if _, err := l.Records("things").Put(t.Context(), journal.Record{Key: "a", Value: []byte("1")}); err != nil {
				t.Fatal(err)
			}
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
			if b, err := l.Bounds(t.Context()); err != nil || b.First != 1 || b.Last != 101 {
				t.Errorf("bounds %+v, %v", b, err)
			}
			if st, err := l.States(t.Context(), ""); err != nil || len(st.Resources) != 60 {
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
			for _, suffix := range suffixes {
				remove(t, filepath.Join(dir, suffix))
			}
			journaltest.Eventually(t, noticed, "an error is logged", func() bool { return len(lines.errors()) > 0 })
			journaltest.Eventually(t, noticed, "the log works again", func() bool { return l.Err() == nil })
			journaltest.AppendN(t, l, s, 5)
			journaltest.InOrder(t, journaltest.ReadAll(t, l, 1), epoch, 1, 105)
			if got := lines.errors(); len(got) != 1 || !strings.Contains(got[0], suffixes[0]) || !strings.Contains(got[0], "was deleted while mcptrack was using it") {
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
