package secretfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// Of several that find no key simultaneously all get the same, which only its owner can read.
func TestKeyIsMadeOnce(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	var all sync.WaitGroup
	keys := make([][]byte, 50)
	for i := range keys {
		all.Go(func() {
			var err error
			if keys[i], err = Key(path); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, key := range keys {
		if !bytes.Equal(key, keys[0]) || len(key) != KeySize {
			t.Fatal("several keys")
		}
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestInvalidKey(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(path, []byte("short\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if key, err := Key(path); key != nil || err == nil {
		t.Errorf("%v, %v", key, err)
	} else if _, ok := errors.AsType[*RefusedError](err); !ok {
		t.Error(err)
	}
	if _, err := Key(filepath.Join(t.TempDir(), "none", "key")); err == nil {
		t.Error("made without a directory")
	}
}
