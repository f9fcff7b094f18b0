package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"
)

func TestUpdate(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mcptrack.lock")
	if _, err := Read(path); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if err := Update(t.Context(), path, func(l *Lock) error { l.Servers = sample().Servers; return nil }); err != nil {
		t.Fatal(err)
	}
	l, err := Read(path)
	if err != nil || len(CompareLocks(sample(), l)) > 0 {
		t.Fatalf("%v, %v", l, err)
	}
	before, err := os.Stat(path)
	must(t, err)
	must(t, Update(t.Context(), path, func(*Lock) error { return nil }))
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("an unchanged lock was written again: %v", err)
	}
	refused := errors.New("refused")
	err = Update(t.Context(), path, func(l *Lock) error { clear(l.Servers); return refused })
	if !errors.Is(err, refused) {
		t.Error(err)
	}
	err = Update(t.Context(), path, func(l *Lock) error { l.Servers["files"].Policy["L999"] = Allow; return nil })
	if err == nil || !strings.Contains(err.Error(), "would be invalid: ") {
		t.Error(err)
	}
	if l, err := Read(path); err != nil || len(CompareLocks(sample(), l)) > 0 {
		t.Errorf("%v, %v", l, err)
	}
	only(t, path)
}

// only fails if there is another file beside path.
func only(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 || entries[0].Name() != filepath.Base(path) {
		t.Errorf("the folder has %v, %v", entries, err)
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	valid, err := Marshal(sample())
	must(t, err)
	write := func(name string, data []byte) string {
		path := filepath.Join(dir, name)
		must(t, os.WriteFile(path, data, 0o600))
		return path
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(write("valid", valid), link); err != nil {
		t.Skip(err)
	}
	dangling := filepath.Join(dir, "dangling")
	must(t, os.Symlink(filepath.Join(dir, "absent"), dangling))
	large := write("large", nil)
	if err := os.Truncate(large, 1<<40); err != nil {
		t.Skip(err)
	}
	for path, want := range map[string]string{
		link:                                "link: the lock is a symbolic link; replace the link with the file itself",
		dangling:                            "the lock is a symbolic link",
		dir:                                 "the lock is not a file",
		large:                               "the file is larger than 64 MiB",
		write("half", valid[:len(valid)/2]): "it was not written completely; restore it from version control",
		write("empty", nil):                 "the file is empty",
	} {
		if _, err := Read(path); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
		called := false
		if err := Update(t.Context(), path, func(*Lock) error { called = true; return nil }); err == nil || !strings.Contains(err.Error(), want) || called {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := os.Lstat(filepath.Join(dir, "absent")); err == nil {
		t.Error("the target of a link was created")
	}
}

// TestProcessesTakeTurns starts processes that all add servers to one file, which is read meanwhile.
func TestProcessesTakeTurns(t *testing.T) {
	t.Parallel()
	const processes, servers = 4, 10
	path := filepath.Join(t.TempDir(), "mcptrack.lock")
	var done sync.WaitGroup
	for p := range processes {
		done.Go(func() {
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=TestAddServers$")
			cmd.Env = append(os.Environ(), "LOCK_FILE="+path, fmt.Sprintf("LOCK_FIRST=%d", p*servers))
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
	}
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if _, err := Read(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("read meanwhile: %v", err)
				return
			}
		}
	})
	done.Wait()
	close(stop)
	reader.Wait()
	l, err := Read(path)
	if err != nil || len(l.Servers) != processes*servers {
		t.Errorf("%d servers, %v", len(l.Servers), err)
	}
	only(t, path)
}

// TestAddServers is a process of [TestProcessesTakeTurns].
func TestAddServers(t *testing.T) {
	path := os.Getenv("LOCK_FILE")
	if path == "" {
		t.Skip("it is run by TestProcessesTakeTurns")
	}
	var first int
	if _, err := fmt.Sscan(os.Getenv("LOCK_FIRST"), &first); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour) // a slow machine is no failure
	defer cancel()
	for i := range 10 {
		err := Update(ctx, path, func(l *Lock) error {
			l.Servers[fmt.Sprint("s", first+i)] = &Server{}
			return nil
		})
		must(t, err)
	}
}

func TestUpdateWaits(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mcptrack.lock")
	ctx, cancel := context.WithCancelCause(t.Context())
	err := Update(t.Context(), path, func(*Lock) error {
		cancel(errors.New("enough"))
		err := Update(ctx, path, func(*Lock) error { return nil })
		if err == nil || !strings.Contains(err.Error(), "cannot lock "+path+" against other processes: enough") {
			t.Errorf("%v", err)
		}
		return nil
	})
	must(t, err)
	if err := Update(t.Context(), filepath.Join(path, "x", "mcptrack.lock"), func(*Lock) error { return nil }); err == nil {
		t.Error("there is no such folder")
	}
	only(t, path)
}

func TestLeftoverOfKilledProcess(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "mcptrack.lock")
	name := filepath.Join(filepath.Dir(path), ".mcptrack.lock.writing")
	must(t, os.WriteFile(name, nil, 0o600))
	must(t, Update(t.Context(), path, func(*Lock) error { return nil }))
	only(t, path)
	if runtime.GOOS == "windows" {
		return
	}
	must(t, os.Symlink(filepath.Join(filepath.Dir(path), "elsewhere"), name))
	if err := Update(t.Context(), path, func(*Lock) error { return nil }); err == nil || !strings.Contains(err.Error(), ".mcptrack.lock.writing is in the way; remove it") {
		t.Error(err)
	}
	if _, err := os.Lstat(filepath.Join(filepath.Dir(path), "elsewhere")); err == nil {
		t.Error("the target of the link was created")
	}
}

// TestCurrent: the lock on a file that its last holder removed excludes nobody.
func TestCurrent(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "x")
	l := flock.New(name)
	if locked, err := l.TryLock(); err != nil || !locked || !current(l, name) {
		t.Fatal(locked, err)
	}
	defer func() { _ = l.Close() }()
	if err := os.Rename(name, name+"2"); err != nil {
		t.Skip(err)
	}
	if current(l, name) {
		t.Error("there is no file")
	}
	must(t, os.WriteFile(name, nil, 0o600))
	if current(l, name) {
		t.Error("it is another file")
	}
}
