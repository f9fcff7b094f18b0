package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// crowd is a serve-sse with more servers than a resource limit allows.
type crowd struct {
	*serving
	file string
	n    int
}

// startCrowd starts serve-sse without servers, so that the test can set limits before join.
func startCrowd(t *testing.T, n int) *crowd {
	t.Helper()
	c := &crowd{file: filepath.Join(t.TempDir(), "mcp-servers.json"), n: n}
	save(t, c.file, config())
	c.serving = serveBeside(t, "--config", c.file, "--data-dir", filepath.Join(t.TempDir(), "data"))
	return c
}

// join adds the servers.
func (c *crowd) join() {
	c.Helper()
	c.joinFirst(c.n)
}

// joinFirst writes a config with the first n servers.
func (c *crowd) joinFirst(n int) {
	c.Helper()
	var entries []string
	for i := range n {
		entries = append(entries, fmt.Sprintf("\"s%d\": %s", i, demoEntry(c.T, fmt.Sprint(c.Name(), "-", i), `, "trackResources": true`)))
	}
	save(c.T, c.file, config(entries...))
}

// states returns how many servers are ready, and the errors of the others.
func (c *crowd) states() (ready int, errors []string) {
	c.Helper()
	body, code := ask(c.T, c.url+"/api/servers", nil)
	var servers []struct{ State, Error string }
	if err := json.Unmarshal([]byte(body), &servers); err != nil || code != 200 {
		c.Fatalf("%d: %v in %s", code, err, body)
	}
	for _, s := range servers {
		if s.State == "Ready" {
			ready++
		} else if s.Error != "" {
			errors = append(errors, s.Error)
		}
	}
	return ready, errors
}

// until waits until ok holds for the servers' states.
func (c *crowd) until(what string, ok func(ready int, errors []string) bool) {
	c.Helper()
	for end := time.Now().Add(time.Minute); ; <-time.After(50 * time.Millisecond) {
		ready, errors := c.states()
		if ok(ready, errors) {
			return
		}
		if time.Now().After(end) {
			c.Fatalf("not %s: %d ready, %q", what, ready, errors)
		}
	}
}

// fill waits until some servers are ready and others report want, and checks that events are still stored and
// served. more raises the limit; then all servers recover.
func (c *crowd) fill(want string, more func()) {
	c.Helper()
	c.until("some of the servers with "+want, func(ready int, errors []string) bool {
		return ready > 0 && strings.Contains(strings.Join(errors, "\n"), want)
	})
	c.events(3, "") // they are stored, and served to new clients
	more()
	c.until("all servers after there is room", func(ready int, _ []string) bool { return ready == c.n })
}

// With a descriptor limit, the servers that fit work, and storing and serving continue. The others report the
// limit and connect after it is raised.
func TestFewDescriptors(t *testing.T) {
	t.Parallel()
	c := startCrowd(t, 12)
	limit := func(n uint64) {
		var was unix.Rlimit
		if err := unix.Prlimit(c.cmd.Process.Pid, unix.RLIMIT_NOFILE, nil, &was); err != nil {
			t.Skip("limits cannot be read: ", err)
		}
		if err := unix.Prlimit(c.cmd.Process.Pid, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: n, Max: was.Max}, nil); err != nil {
			t.Skip("limits cannot be set: ", err)
		}
	}
	limit(48)
	c.join()
	c.fill("too many open files (limit 48)", func() { limit(512) })
}

// group puts the process in a control group of its own. The test is skipped where that is
// not allowed.
func (c *crowd) group(controller, file string) (set func(value string)) {
	c.Helper()
	raw, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		c.Skip("no control groups: ", err)
	}
	dir := ""
	for line := range strings.Lines(string(raw)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) == 3 && parts[1] == controller {
			dir = filepath.Join("/sys/fs/cgroup", controller, parts[2])
		} else if len(parts) == 3 && parts[0] == "0" && dir == "" {
			dir = filepath.Join("/sys/fs/cgroup", parts[2])
		}
	}
	dir = filepath.Join(dir, fmt.Sprintf("mcptrack-test-%d-%s", os.Getpid(), controller))
	if err := os.Mkdir(dir, 0o700); err != nil {
		c.Skip("no control group can be made: ", err)
	}
	c.Cleanup(func() {
		c.stop(syscall.SIGKILL)
		for range 500 { // the servers end with their input
			if err = os.Remove(dir); err == nil {
				return
			}
			<-time.After(20 * time.Millisecond)
		}
		c.Log(err)
	})
	set = func(value string) {
		c.Helper()
		if err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0); err != nil {
			c.Skip("the limit of the control group cannot be set: ", err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(c.cmd.Process.Pid)), 0); err != nil {
		c.Skip("the process cannot be put in a control group: ", err)
	}
	return set
}

// If memory runs out, servers are killed and not mcptrack.
func TestLittleMemory(t *testing.T) {
	t.Parallel()
	c := startCrowd(t, 12)
	file := "memory.max"
	if _, err := os.Stat("/sys/fs/cgroup/memory/memory.limit_in_bytes"); err == nil {
		file = "memory.limit_in_bytes"
	}
	set := c.group("memory", file)
	set(strconv.Itoa(c.memory() + 30<<20))
	c.join()
	c.until("a server was killed", func(_ int, errors []string) bool {
		return strings.Contains(strings.Join(errors, "\n"), "SIGKILL")
	})
	set(strconv.Itoa(8 << 30))
	c.until("all servers after there is room", func(ready int, _ []string) bool { return ready == c.n })
}

// memory returns how much of it the process has.
func (c *crowd) memory() int { return resident(c.T, c.cmd.Process.Pid) }

// resident returns how much memory a process has, in bytes.
func resident(t *testing.T, pid int) int {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(raw), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
