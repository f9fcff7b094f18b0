package program_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/mcptrack/mcptrack/core/internal/program"
)

// What is in a folder that the user may not search, such as one of root in the PATH of another user, is not known.
func TestClosedFolder(t *testing.T) {
	closed := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(closed, 0o700); err != nil {
		t.Fatal(err)
	}
	var name, path error
	find := func() {
		_, name = program.Find("server", "", closed+":/no/such/folder")
		_, path = program.Find(filepath.Join(closed, "server"), "", "")
	}
	if os.Geteuid() != 0 {
		if err := os.Chmod(closed, 0); err != nil {
			t.Fatal(err)
		}
		find()
	} else {
		asNobody(t, find)
	}
	if !errors.Is(name, exec.ErrNotFound) {
		t.Errorf("a name: %v", name)
	}
	if path == nil || path.Error() != "permission denied" {
		t.Errorf("a path: %v", path)
	}
}

// asNobody calls a function in a thread that has the rights of nobody in the file system.
func asNobody(t *testing.T, f func()) {
	done := make(chan syscall.Errno) // receives one value from the goroutine
	go func() {
		runtime.LockOSThread() // never unlocked, so that the thread ends with the goroutine
		_, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, 65534, 0, 0)
		f()
		done <- errno
	}()
	if errno := <-done; errno != 0 {
		t.Fatal(errno)
	}
}
