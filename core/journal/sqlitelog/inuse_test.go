package sqlitelog

import "testing"

func TestInUse(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if InUse(dir) {
		t.Error("an empty directory is in use")
	}
	l, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if !InUse(dir) {
		t.Error("a log that is written is not in use")
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if InUse(dir) {
		t.Error("a closed log is in use")
	}
}
