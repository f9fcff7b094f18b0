package agent

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func open(t *testing.T, dir string) *Reader {
	t.Helper()
	r, err := OpenReader(dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func TestReaderIsKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "agent")
	r := open(t, dir)
	if r.ID() != "" {
		t.Error("a new reader knows something")
	}
	r.reported("3f9a1c20b7e4d581-42", map[string]bool{"a": true})
	r.reported("", nil)
	r.Close()
	if r = open(t, dir); r.ID() != "3f9a1c20b7e4d581-42" || len(r.state.Down) != 0 {
		t.Errorf("%+v", r.state)
	}
}

// Two simultaneous processes have a reader each. The next process continues with the first one, and the other
// is dropped.
func TestReadersOfTwoProcesses(t *testing.T) {
	dir := t.TempDir()
	first := open(t, dir)
	first.reported("e-1", nil)
	second := open(t, dir)
	if second.ID() != "e-1" {
		t.Error("the second one begins without what the first has reported")
	}
	second.reported("e-2", nil)
	second.Close()
	again := open(t, dir)
	if again.ID() != "e-2" {
		t.Error("the second one, started again, has another reader")
	}
	again.Close()
	first.Close()
	if third := open(t, dir); third.ID() != "e-1" {
		t.Errorf("%+v", third.state)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "*.json")); len(files) != 1 {
		t.Errorf("%q are left", files)
	}
}

// The content of the file is not trusted.
func TestReaderOfBadFile(t *testing.T) {
	for _, content := range []string{"", "{", "null", "[]", `{"id":1}`, `{"down":null}`} {
		dir := t.TempDir()
		r := open(t, dir)
		r.Close()
		if err := os.WriteFile(r.file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		r = open(t, dir)
		if r.ID() != "" {
			t.Errorf("%q: %+v", content, r.state)
		}
		r.reported("e-1", nil)
		r.Close()
		if r = open(t, dir); r.ID() != "e-1" {
			t.Errorf("after %q, %+v", content, r.state)
		}
	}
}

// A directory that cannot be created, and one in which writing begins to fail.
func TestReaderThatCannotBeStored(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenReader(file, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrNoReader) {
		t.Error(err)
	}
	if runtime.GOOS == "windows" {
		t.Skip("open files cannot be moved")
	}
	dir := filepath.Join(t.TempDir(), "agent")
	r := open(t, dir)
	if err := os.Rename(dir, dir+"2"); err != nil {
		t.Fatal(err)
	}
	if r.reported("e-1", nil); !r.stuck {
		t.Error("the state was stored")
	}
	if err := os.Rename(dir+"2", dir); err != nil {
		t.Fatal(err)
	}
	r.reported("e-1", nil)
	r.Close()
	if r = open(t, dir); r.ID() != "e-1" {
		t.Error("the state was not stored when this was possible again")
	}
}

// If there are more processes than readers, OpenReader fails; it does not share a reader.
func TestReadersAreBounded(t *testing.T) {
	dir := t.TempDir()
	for range maxReaders {
		open(t, dir)
	}
	if _, err := OpenReader(dir, slog.New(slog.DiscardHandler)); !errors.Is(err, ErrNoReader) {
		t.Error(err)
	}
}
