package sqlitelog

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/records"
)

// older returns a directory with a log that an older mcptrack has written in format 2, or 1: 20 events
// about docs, five states, a list, texts, a call (format 2), and records with secrets.
func older(t *testing.T, format int) (dir string) {
	t.Helper()
	dir = t.TempDir()
	packed, err := os.Open(filepath.Join("testdata", "events-v2.db.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	unpacked, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(unpacked)
	if err == nil {
		err = os.WriteFile(events(dir), data, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	c, err := sqlite.OpenConn(events(dir), sqlite.OpenReadWrite)
	if err != nil {
		t.Fatal(err)
	}
	script := "UPDATE log SET inode = 0;" // it is a copy
	if format == 1 {
		script += "DROP TABLE calls; UPDATE log SET version = 1; PRAGMA user_version = 1;"
	}
	if err := sqlitex.ExecuteScript(c, script, nil); err != nil || c.Close() != nil {
		t.Fatal(err)
	}
	return dir
}

// A log of an older format is read as it is, and upgraded by the next writer, which loses nothing. The
// records are then in a file of their own, and what events.db had of them is overwritten.
func TestOlderFormats(t *testing.T) {
	t.Parallel()
	for _, format := range []int{1, 2} {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			t.Parallel()
			dir := older(t, format)
			if data, err := os.ReadFile(events(dir)); err != nil || !bytes.Contains(data, []byte("whsec_s.sub_1")) {
				t.Fatalf("the file has no secret: %v", err)
			}
			reader := open(t, Options{Dir: dir, Existing: true})
			check := func(l *Log, call int) {
				t.Helper()
				entries := journaltest.ReadAll(t, l, 0)
				if len(entries) != 20 || slices.ContainsFunc(entries, func(e journal.Entry) bool { return e.Gap != nil }) || l.Epoch() != "80a26f506b21661f" {
					t.Errorf("%d entries, epoch %s", len(entries), l.Epoch())
				}
				st, err := l.States(t.Context(), "")
				if err != nil || len(st.Resources) != 5 || len(st.Lists) != 1 {
					t.Fatalf("%+v, %v", st, err)
				}
				for _, s := range st.Resources {
					if text, ok, err := l.Contents().Get(t.Context(), s.Digest); err != nil || !ok || int64(len(text)) != s.Size {
						t.Errorf("text %q, %v", text, err)
					}
				}
				if found := readCalls(t, l, calls.Query{}); len(found) != call {
					t.Errorf("calls %+v", found)
				}
			}
			check(reader, format-1)
			for range 2 {
				l := open(t, Options{Dir: dir, KeepContent: 1 << 20})
				check(l, format-1)
				for _, suffix := range []string{"", "-wal"} {
					if data, err := os.ReadFile(events(dir) + suffix); err != nil && !os.IsNotExist(err) || bytes.Contains(data, []byte("whsec_")) {
						t.Errorf("events.db%s has a secret, %v", suffix, err)
					}
				}
				file, err := records.Open(l.RecordsFile())
				if err != nil {
					t.Fatal(err)
				}
				for key, want := range map[string]string{"s.sub_1": "whsec_s.sub_1", "s.sub_2": "", "subscriptions": "whsec_subscriptions"} {
					rec, err := file.Get(t.Context(), key)
					if err != nil || (rec.Value == nil) != (want == "") || !bytes.Contains(rec.Value, []byte(want)) {
						t.Errorf("record %s is %s, %v", key, rec.Value, err)
					}
				}
				closeLog(t, l)
			}
			// It can be written like a new one.
			l := open(t, Options{Dir: dir, KeepContent: 1 << 20})
			s := new(journaltest.Source)
			if e := journaltest.AppendN(t, l, s, 200); e.Seq != 220 {
				t.Errorf("continues with %s", e.ID)
			}
			l.Contents().Put(journaltest.Digest(1), "new")
			l.Calls().Add(calls.Call{Tool: "x"})
			if err := l.RememberList(journal.ListName{ServerID: "docs", Kind: catalog.Tools}, nil); err != nil {
				t.Fatal(err)
			}
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			if b, err := reader.Bounds(t.Context()); err != nil || b.Last != 220 {
				t.Errorf("another process sees %+v, %v", b, err)
			}
			closeLog(t, l)
			l = open(t, Options{Dir: dir, RetainBytes: 1, KeepContent: 0})
			journaltest.AppendN(t, l, s, 1)
			if text, ok, err := l.Contents().Get(t.Context(), journaltest.Digest(1)); ok || err != nil || l.Stats().Damages != 0 {
				t.Errorf("%q, %v, %+v", text, err, l.Stats())
			}
		})
	}
}

// An upgrade that cannot write the records fails, loses nothing, and is tried again. The records in the log are
// newer than those that an earlier upgrade left.
func TestUpgradeWithoutRoomForRecords(t *testing.T) {
	t.Parallel()
	dir := older(t, 2)
	path := filepath.Join(dir, "deliveries.json")
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(t.Context(), Options{Dir: dir}); err == nil {
		closeLog(t, l)
		t.Error("the records are lost")
	}
	if aside, err := filepath.Glob(events(dir) + ".damaged*"); len(aside) > 0 || err != nil {
		t.Errorf("%q, %v", aside, err)
	}
	if err := os.RemoveAll(path); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(`{"version":1,"records":{}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	l := open(t, Options{Dir: dir})
	defer closeLog(t, l)
	if n := len(journaltest.ReadAll(t, l, 0)); n != 20 {
		t.Errorf("%d events", n)
	}
	file, err := records.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if rec, err := file.Get(t.Context(), "s.sub_1"); err != nil || rec.Value == nil {
		t.Errorf("%+v, %v", rec, err)
	}
}
