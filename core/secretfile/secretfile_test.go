package secretfile

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(text string, mode os.FileMode) string {
		f, err := os.CreateTemp(dir, "")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = f.WriteString(text)
		_ = f.Close()
		if err := os.Chmod(f.Name(), mode); err != nil {
			t.Fatal(err)
		}
		return f.Name()
	}
	if got, err := Read(put(" sk-1\r\n", 0o600)); got != "sk-1" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for name, file := range map[string]string{
		"open to others": put("sk-secret", 0o644), "empty": put("\n", 0o600), "two lines": put("sk-secret\nX: y", 0o400),
		"long": put(strings.Repeat("s", MaxSize+1), 0o600), "a folder": dir, "nowhere": filepath.Join(dir, "none"),
	} {
		got, err := Read(file)
		_, ok := errors.AsType[*RefusedError](err)
		if got != "" || !ok || strings.Contains(err.Error(), "sk-secret") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestLoad(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "key.pem")
	if err := os.WriteFile(file, []byte("two\nlines"), 0o640); err != nil {
		t.Fatal(err)
	}
	if got, err := Load(file, 9, 0o007); string(got) != "two\nlines" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	for name, load := range map[string]func() ([]byte, error){
		"too long":   func() ([]byte, error) { return Load(file, 8, 0o007) },
		"group":      func() ([]byte, error) { return Load(file, 9, 0o077) },
		"a folder":   func() ([]byte, error) { return Load(filepath.Dir(file), 9, 0) },
		"below file": func() ([]byte, error) { return Load(filepath.Join(file, "x"), 9, 0) },
	} {
		got, err := load()
		if _, ok := errors.AsType[*RefusedError](err); got != nil || !ok || strings.Contains(err.Error(), "open ") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestReadAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "key.pem")
	if err := os.WriteFile(path, []byte("line one\nline two\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadAll(path); string(got) != "line one\nline two\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, make([]byte, MaxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{large, dir, filepath.Join(dir, "none")} {
		if _, err := ReadAll(path); err == nil {
			t.Errorf("%s was read", path)
		}
	}
}

// Concurrent calls that find no key all get the same one, and only its owner can read it.
func TestKeyIsCreatedOnce(t *testing.T) {
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
