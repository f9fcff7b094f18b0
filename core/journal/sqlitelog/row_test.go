package sqlitelog

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

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

// Nobody sees numbers that never existed. The next number follows the last one, even if the lock
// does not name it.
func TestAbsurdNumbers(t *testing.T) {
	t.Parallel()
	n := 6000 // more than a transaction has
	if testing.Short() {
		n = 300
	}
	last := fmt.Sprint(" WHERE seq = ", n)
	for name, change := range map[string]string{
		"the last one is the largest":  fmt.Sprint("UPDATE log SET last = ", math.MaxInt64),
		"the last one is small":        "UPDATE log SET last = 10",
		"the first one is large":       "UPDATE log SET first = last",
		"an event is the largest":      fmt.Sprint("UPDATE events SET seq = ", math.MaxInt64) + last,
		"an event is a little farther": "UPDATE events SET seq = seq + 100" + last,
		"both are the largest":         fmt.Sprintf("UPDATE log SET last = %[1]d; UPDATE events SET seq = %[1]d", math.MaxInt64) + last,
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
		"deleted": func(t *testing.T, dir string) { remove(t, events(dir)) },
		"the first page of events": func(t *testing.T, dir string) {
			harm(t, dir, "n21")
		},
		"all events": func(t *testing.T, dir string) { sql(t, dir, "DELETE FROM events") },
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
