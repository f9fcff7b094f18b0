package records_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/internal/recordstest"
	"github.com/mcptrack/mcptrack/core/records"
)

func open(t *testing.T, path string) *records.File {
	t.Helper()
	f, err := records.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestFileKeepsTheContract(t *testing.T) {
	t.Parallel()
	recordstest.Run(t, func(t *testing.T) (records.Store, func() records.Store) {
		path := filepath.Join(t.TempDir(), "records.json")
		return open(t, path), func() records.Store { return open(t, path) }
	})
}

// Nothing in the directory has what a removed or replaced record had, such as the secret of a
// webhook, and only the owner can read the file.
func TestRemovedRecordsLeaveNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := open(t, filepath.Join(dir, "records.json"))
	secret := func(i int) string { return fmt.Sprintf(`"secret-%d;%s"`, i, strings.Repeat("x", 1000)) }
	for i := range 6 {
		if _, err := f.Put(t.Context(), records.Record{Key: fmt.Sprint(i), Value: []byte(secret(i))}); err != nil {
			t.Fatal(err)
		}
	}
	contains := func(text string) (found bool) {
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			data, err := os.ReadFile(path)
			found = found || bytes.Contains(data, []byte(text))
			if info, _ := d.Info(); runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	for i := range 6 {
		rec, err := f.Get(t.Context(), fmt.Sprint(i))
		if err == nil && i%3 == 0 {
			err = f.Remove(t.Context(), rec)
		} else if rec.Value = []byte("0"); err == nil && i%3 == 1 {
			_, err = f.Put(t.Context(), rec)
		}
		if err != nil {
			t.Fatal(err)
		}
		if kept := i%3 == 2; contains(fmt.Sprintf("secret-%d;", i)) != kept {
			t.Errorf("the secret of record %d is there: %v", i, !kept)
		}
	}
}

// What could not be saved does not count, and nobody sees it.
func TestFailedWriteDoesNotCount(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "missing", "records.json")
	f := open(t, path)
	if _, err := f.Put(t.Context(), records.Record{Key: "a", Value: []byte("1")}); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if rec, err := f.Get(t.Context(), "a"); err != nil || rec.Value != nil || rec.Revision != 0 {
		t.Errorf("the record is %+v, %v", rec, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f.Follow(ctx, func(c records.Changes) {
		if cancel(); len(c.Records) > 0 || c.Last != 0 {
			t.Errorf("followers see %+v", c)
		}
	})
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if revision, err := f.Put(t.Context(), records.Record{Key: "a", Value: []byte("1")}); err != nil || revision != 1 {
		t.Errorf("then the revision is %d, %v", revision, err)
	}
}

// A file that cannot be read is not replaced by an empty one, and the error does not reveal what it has.
func TestDamagedFileIsKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "records.json")
	for _, data := range []string{"", `{"version":1,"records":{"a":"secret`, `{"version":2,"records":{"a":"secret"}}`} {
		if err := os.WriteFile(path, []byte(data), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := records.Open(path); err == nil || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", data, err)
		}
		if kept, err := os.ReadFile(path); err != nil || string(kept) != data {
			t.Errorf("the file has %q, %v", kept, err)
		}
	}
}

// Write fills a file in place of another.
func TestWrite(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "records.json")
	for _, values := range []map[string][]byte{{"b": []byte("1")}, {"a": []byte(`{"n":1}`), "b": []byte(`{"n":`)}} {
		if err := records.Write(path, values); err != nil {
			t.Fatal(err)
		}
	}
	f := open(t, path)
	for key, want := range map[string]string{"a": `{"n":1}`, "b": ""} {
		if rec, err := f.Get(t.Context(), key); err != nil || string(rec.Value) != want {
			t.Errorf("%s is %s, %v", key, rec.Value, err)
		}
	}
}
