//go:build linux

package main

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A flipped byte in the store becomes a gap, and costs no more than the events
// around it.
func TestServeFlippedByte(t *testing.T) {
	t.Parallel()
	s, dataDir := demoServing(t)
	seen := s.events(12, "")
	s.stop(syscall.SIGTERM)
	file := filepath.Join(dataDir, "events.db")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	uri, places := []byte(`"resourceUri":"vault://`), []int(nil)
	for at := 0; ; at += len(uri) {
		next := bytes.Index(data[at:], uri)
		if next < 0 {
			break
		}
		at += next
		places = append(places, at)
	}
	if len(places) < 4 {
		t.Fatalf("only %d events about resources", len(places))
	}
	data[places[len(places)/2]+len(uri)-len("lt://")] ^= 'l' ^ 'k' // vaukt://
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := mcptrackCommand(t.Context(), "replay", "--data-dir", dataDir).Output()
	if err != nil {
		t.Fatal(err)
	}
	events, gaps, there := 0, 0, map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, `"type":"gap"`) {
			gaps++
			if !strings.Contains(line, `"reason":"damaged"`) {
				t.Errorf("sent as %s", line)
			}
			continue
		}
		events++
		id, _, _ := strings.Cut(strings.TrimPrefix(line, `{"id":"`), `"`)
		there[id] = true
		if strings.Contains(line, "vaukt://") {
			t.Errorf("served as truth: %s", line)
		}
	}
	if lost := len(seen) - countIn(there, seen); gaps == 0 || lost > len(seen)/2 {
		t.Errorf("%d gaps, %d events, %d of %d lost:\n%s", gaps, events, lost, len(seen), out)
	}
}

func countIn(set map[string]bool, keys []string) (n int) {
	for _, k := range keys {
		if set[k] {
			n++
		}
	}
	return n
}

// A full disk makes it unready, and nothing that is not stored is shown. Once there
// is space all goes on, without a hole and without an id that is used twice.
func TestServeDiskFull(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, disk := filepath.Join(dir, "mcp-servers.json"), filepath.Join(dir, "disk")
	save(t, file, config(`"demo": `+demoEntry(t, t.Name(), `, "trackResources": true`)))
	self := filepath.Join(dir, "mcptrack")
	exe, err := os.Executable()
	if err := errors.Join(err, os.Symlink(exe, self), os.Mkdir(disk, 0o700)); err != nil {
		t.Fatal(err)
	}
	// A small file system that only the process and its children see, and that is
	// gone with them. Who is not root needs a user namespace for it.
	small := func(args ...string) *serving {
		cmd := mcptrackCommand(t.Context())
		cmd.Path = "/bin/sh"
		cmd.Args = append([]string{"sh", "-c", `mount -t tmpfs -o size=16m,mode=700 tmpfs "$0" && exec "$@"`, disk}, args...)
		cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
		if os.Geteuid() != 0 {
			cmd.SysProcAttr = &syscall.SysProcAttr{
				Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS,
				UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
				GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
			}
		}
		if args[0] == "true" {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Skipf("a file system that can be filled needs root, or user namespaces: %v, %s", err, out)
			}
			return nil
		}
		return serveCommand(t, cmd)
	}
	small("true")
	s := small(self, "serve-sse", "--addr", "127.0.0.1:0", "--config", file, "--data-dir", filepath.Join(disk, "events"))
	last := s.events(3, "")[2]
	ready := func(want int) (why string) {
		t.Helper()
		for deadline := time.Now().Add(time.Minute); ; <-time.After(20 * time.Millisecond) {
			text, code := ask(t, s.url+"/readyz", nil)
			if code == want {
				return text
			}
			if time.Now().After(deadline) {
				t.Fatalf("/readyz stays %d: %s", code, text)
			}
		}
	}
	ready(http.StatusOK)
	filler := fmt.Sprintf("/proc/%d/root%s/filler", s.cmd.Process.Pid, disk)
	f, err := os.Create(filler)
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if _ = f.Close(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if why := ready(http.StatusServiceUnavailable); !strings.Contains(why, "cannot be stored") {
		t.Errorf("not ready: %s", why)
	}
	if text, code := ask(t, s.url+"/healthz", nil); code != http.StatusOK {
		t.Errorf("/healthz: %d %s", code, text)
	}
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	ready(http.StatusOK)
	wantNext(t, append([]string{last}, s.events(30, last)...)...)
	s.stop(syscall.SIGTERM)
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit %d", code)
	}
}
