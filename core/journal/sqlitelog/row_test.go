package sqlitelog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// record returns where in events.db the last row of a table with one page is.
func record(t *testing.T, dir, table string) (from, to int) {
	t.Helper()
	root := rootOf(t, dir, table)
	b, err := os.ReadFile(events(dir))
	if err != nil {
		t.Fatal(err)
	}
	page := b[root : root+4096]
	cells := int(binary.BigEndian.Uint16(page[3:]))
	if page[0] != 13 || cells == 0 {
		t.Fatalf("page %d is of type %d and has %d rows", root/4096+1, page[0], cells)
	}
	cell := int(binary.BigEndian.Uint16(page[8+2*(cells-1):]))
	size, n := binary.Uvarint(page[cell:]) // SQLite's varints are the same below 128, and sizes up to 16383 have two bytes
	if page[cell] > 127 {
		size, n = uint64(page[cell]&127)<<7|uint64(page[cell+1]), 2
	}
	return root + cell, root + cell + n + 1 + int(size) // 1: the rowid
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

// Whatever byte of the row is changed, the log opens, reports damage, has all events under a new
// epoch, and continues with the next number.
func TestEveryByteOfTheLogsRow(t *testing.T) {
	t.Parallel()
	const n = 50
	pristine, epoch := filled(t, n)
	from, to := record(t, pristine, "log")
	if to-from < 80 {
		t.Fatalf("the row has %d bytes", to-from)
	}
	image, err := os.ReadFile(events(pristine))
	if err != nil {
		t.Fatal(err)
	}
	lock, err := os.ReadFile(filepath.Join(pristine, "lock"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	step := 1
	if raced || testing.Short() {
		step = 7
	}
	for at := from; at < to; at += step {
		mask := []byte{1, 0x80}[at%2]
		what := fmt.Sprintf("byte %d of %d, ^%#x", at-from, to-from, mask)
		change(t, events(pristine), func([]byte) []byte { // in place, so that it is no copy
			b := append([]byte(nil), image...)
			b[at] ^= mask
			return b
		})
		if err := errors.Join(os.Rename(events(pristine), events(dir)), os.WriteFile(filepath.Join(dir, "lock"), lock, 0o600)); err != nil {
			t.Fatal(err)
		}
		lines := new(logged)
		l := open(t, Options{Dir: dir, KeepContent: 1 << 20, Logger: slog.New(slog.NewTextHandler(lines, nil))})
		if l.Epoch() == epoch || l.Stats().Damages == 0 || len(lines.errors()) != 1 {
			t.Errorf("%s: epoch kept: %v, %+v, logged %q", what, l.Epoch() == epoch, l.Stats(), lines.errors())
		}
		if there, missing := truthful(t, journaltest.ReadAll(t, l, 0)); there != n || missing != 0 {
			t.Errorf("%s: %d there, %d missing", what, there, missing)
		}
		truthfulRest(t, l, n)
		if e := journaltest.AppendN(t, l, new(journaltest.Source), 1); e.Seq != n+1 {
			t.Errorf("%s: continues with %s", what, e.ID)
		}
		closeLog(t, l)
		moved := events(dir) + ".damaged-1"
		if err := errors.Join(os.Rename(moved, events(pristine)), os.Remove(events(dir))); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if t.Failed() {
			break
		}
	}
}

// Nobody sees numbers that never existed. The next number follows the last one, even if the lock
// does not name it.
func TestAbsurdNumbers(t *testing.T) {
	if raced {
		t.Skip("takes long, in one goroutine")
	}
	t.Parallel()
	const n = 6000 // more than a transaction has
	for name, change := range map[string]string{
		"the last one is the largest":  fmt.Sprint("UPDATE log SET last = ", math.MaxInt64),
		"the last one is large":        "UPDATE log SET last = last + 1000000",
		"the last one is small":        "UPDATE log SET last = 10",
		"the first one is large":       "UPDATE log SET first = last",
		"an event is the largest":      fmt.Sprint("UPDATE events SET seq = ", math.MaxInt64, " WHERE seq = 6000"),
		"an event is far":              "UPDATE events SET seq = seq + 1000000 WHERE seq = 6000",
		"an event is a little farther": "UPDATE events SET seq = seq + 100 WHERE seq = 6000",
		"both are the largest":         fmt.Sprintf("UPDATE log SET last = %[1]d; UPDATE events SET seq = %[1]d WHERE seq = 6000", math.MaxInt64),
		"the origin":                   "UPDATE log SET origin = '0123456789abcdef'",
		"an old epoch":                 "UPDATE epochs SET epoch = 'x'",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			s := new(journaltest.Source)
			l := open(t, Options{Dir: dir})
			journaltest.AppendN(t, l, s, n/2)
			journaltest.AppendN(t, l, s, n/2)
			closeLog(t, l)
			script(t, dir, change)
			remove(t, filepath.Join(dir, "lock"))
			l = open(t, Options{Dir: dir})
			there, missing := truthful(t, journaltest.ReadAll(t, l, 0))
			if there < n-1 || there+missing > n || name != "an old epoch" && l.Stats().Damages == 0 {
				t.Errorf("%d there, %d missing, %+v", there, missing, l.Stats())
			}
			s.N = there + missing
			if e := journaltest.AppendN(t, l, s, 1); e.Seq != uint64(s.N) {
				t.Errorf("continues with %s", e.ID)
			}
			closeLog(t, l)
			l = open(t, Options{Dir: dir})
			if there, missing := truthful(t, journaltest.ReadAll(t, l, 0)); l.Stats().Damages > 0 && missing == 0 || there < n || there+missing > n+1 {
				t.Errorf("opened again: %d there, %d missing, %+v", there, missing, l.Stats())
			}
		})
	}
}

// A reader of the writing process has the file replaced; a reader of another process gets an error.
// Neither sees numbers that never existed.
func TestLogsRowIsDamagedWhileItIsRead(t *testing.T) {
	t.Parallel()
	const n = 50
	dir, epoch := filled(t, n)
	l := open(t, Options{Dir: dir})
	other := open(t, Options{Dir: dir, Existing: true})
	if there, _ := truthful(t, journaltest.ReadAll(t, other, 0)); there != n {
		t.Fatalf("%d events", there)
	}
	sql(t, dir, fmt.Sprint("UPDATE log SET last = ", math.MaxInt64))
	for e, err := range other.Read(t.Context(), n+1) {
		if err == nil || !damaged(err) {
			t.Fatalf("%s, %+v, %v", e.ID, e.Gap, err)
		}
	}
	if _, err := readOnce(t, l); !errors.Is(err, journal.ErrEpoch) {
		t.Fatal(err)
	}
	there, missing := truthful(t, journaltest.ReadAll(t, l, 0))
	if there != n || missing != 0 || l.Epoch() == epoch || l.Stats().Damages == 0 {
		t.Errorf("%d there, %d missing, epoch kept: %v, %+v", there, missing, l.Epoch() == epoch, l.Stats())
	}
	if there, missing := truthful(t, journaltest.ReadAll(t, other, 0)); there != n || missing != 0 || other.Epoch() != l.Epoch() {
		t.Errorf("another process: %d there, %d missing", there, missing)
	}
}

// The numbers of lost events are in gaps that say so, and do not blame retention before it would
// have removed them.
func TestWhatARepairLostIsDamaged(t *testing.T) {
	t.Parallel()
	const n = 300
	for name, hurt := range map[string]func(t *testing.T, dir string){
		"emptied": func(t *testing.T, dir string) { change(t, events(dir), func([]byte) []byte { return nil }) },
		"garbage": func(t *testing.T, dir string) {
			change(t, events(dir), func(b []byte) []byte { clear(b); return b })
		},
		"deleted": func(t *testing.T, dir string) { remove(t, events(dir)) },
		"the first page of events": func(t *testing.T, dir string) {
			harm(t, dir, "n21")
		},
		"all events":           func(t *testing.T, dir string) { sql(t, dir, "DELETE FROM events") },
		"all events, and more": func(t *testing.T, dir string) { script(t, dir, "DELETE FROM events; DELETE FROM log") },
		"the root of events": func(t *testing.T, dir string) {
			change(t, events(dir), func(b []byte) []byte { return overwrite(b, rootOf(t, dir, "events")) })
		},
	} {
		for _, running := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, running=%v", name, running), func(t *testing.T) {
				t.Parallel()
				dir := t.TempDir()
				opts := Options{Dir: dir}
				s := new(journaltest.Source)
				l := open(t, opts)
				journaltest.AppendN(t, l, s, n)
				epoch := l.Epoch()
				closeLog(t, l)
				setLog(t, dir, func(r *logRow) { r.first = 21 }) // as the retention does
				sql(t, dir, "DELETE FROM events WHERE seq < 21")
				if running {
					l = open(t, opts)
				}
				hurt(t, dir)
				if running {
					if _, err := readOnce(t, l); err == nil { // it has to look into the file
						_, _ = readOnce(t, l)
					}
				} else {
					l = open(t, opts)
				}
				if name != "all events" || !running {
					journaltest.Eventually(t, noticed, "a new epoch begins", func() bool { return l.Epoch() != epoch })
				}
				checkLost(t, l, name, n)
				if e := journaltest.AppendN(t, l, s, 1); e.Seq != n+1 {
					t.Errorf("continues with %s", e.ID)
				}
				closeLog(t, l)
				l = open(t, opts)
				checkLost(t, l, name, n)
				if l.Stats().Damages == 0 {
					t.Error("readers do not learn that it is damaged")
				}
			})
		}
	}
}

// checkLost fails unless some of the events 21 to n are in gaps with the reason "damaged".
func checkLost(t *testing.T, l *Log, name string, n uint64) {
	t.Helper()
	lost := uint64(0)
	for _, e := range journaltest.ReadAll(t, l, 1) {
		if e.Gap != nil && e.Gap.Reason == journal.ReasonDamaged {
			_, from, err := event.ParseID(e.Gap.From)
			if err != nil {
				t.Error(err)
			}
			lost += e.Seq - from
		} else if e.Gap != nil && e.Seq > 20 {
			t.Errorf("%s up to %s: %+v", name, e.ID, e.Gap)
		}
	}
	if lost == 0 {
		t.Errorf("%s: nothing is reported as damaged", name)
	}
}

// Of pages whose end is zeroed, as in a truncated file, nothing is served and no number is
// believed.
func TestZeroedRows(t *testing.T) {
	t.Parallel()
	const n = 1000
	for _, existing := range []bool{true, false} {
		t.Run(fmt.Sprint("existing=", existing), func(t *testing.T) {
			t.Parallel()
			dir, _ := filled(t, n)
			change(t, events(dir), func(b []byte) []byte {
				for i := 200; i < 300; i++ {
					if at := bytes.Index(b, fmt.Appendf(nil, `"name":"n%d"`, i)); at >= 0 {
						page := b[at&^4095 : at&^4095+4096]
						clear(page[8+2*binary.BigEndian.Uint16(page[3:]):])
					}
				}
				return b
			})
			l := open(t, Options{Dir: dir, Existing: existing})
			there, missing := truthful(t, journaltest.ReadAll(t, l, 0))
			if there+missing != n || missing < 100 || missing > 150 {
				t.Errorf("%d there, %d missing", there, missing)
			}
		})
	}
}

// script runs several statements.
func script(t *testing.T, dir, statements string) {
	t.Helper()
	for statement := range strings.SplitSeq(statements, ";") {
		sql(t, dir, statement)
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
