package sqlitelog

import (
	"bufio"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/peertest"
)

// Killing the process is no power cut: what it wrote and did not sync stays in the memory of the
// operating system. So the log is on its own file system, an ext4 in an image, and the cut is a
// copy of the image, which has what had reached the device and nothing that was only in memory. The
// process is stopped during the copy, and a copy during which anything was written to the device is
// repeated, so that it is the state of one moment. Mounting the copy is what the next boot does.
//
// Not simulated: a device that forgets what it acknowledged as flushed, or that keeps later writes
// and loses earlier ones. A file that was written without a sync shows that the cut really loses
// something.

// device is a mounted image.
type device struct {
	image, mount string
	stat         string // counters of its loop device
}

// attach mounts the image.
func attach(t *testing.T, image string) *device {
	t.Helper()
	d := &device{image: image, mount: image + ".mnt"}
	if err := os.Mkdir(d.mount, 0o700); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, d.mount).CombinedOutput(); err != nil {
		t.Skipf("a file system in an image cannot be mounted: %v, %s", err, out)
	}
	t.Cleanup(func() { d.detach(t) })
	mounts, err := os.ReadFile("/proc/mounts")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); f[1] == d.mount {
			d.stat = filepath.Join("/sys/block", filepath.Base(f[0]), "stat")
		}
	}
	return d
}

func (d *device) detach(t *testing.T) {
	t.Helper()
	if d.mount == "" {
		return
	}
	// A process that was just killed may still be ending.
	journaltest.Eventually(t, time.Minute, "the image is unmounted", func() bool {
		err := syscall.Unmount(d.mount, 0)
		return err == nil || errors.Is(err, syscall.EINVAL)
	})
	d.mount = ""
}

// writes counts the writes that the device has begun and ended, and those in flight.
func (d *device) writes(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(d.stat)
	if err != nil {
		t.Fatal(err)
	}
	f := strings.Fields(string(text))
	return fmt.Sprintf("%s ended, %s under way", f[4], f[8])
}

// cut copies the image as it is at one moment.
func (d *device) cut(t *testing.T, to string) {
	t.Helper()
	for range 50 {
		before := d.writes(t)
		if out, err := exec.Command("cp", "--sparse=always", d.image, to).CombinedOutput(); err != nil {
			t.Fatalf("copy the image: %v, %s", err, out)
		}
		if after := d.writes(t); after == before && strings.HasSuffix(after, " 0 under way") {
			return
		}
	}
	t.Fatal("the device is never at rest")
}

// acknowledged has the ids of the events that were acknowledged to a child as durable.
type acknowledged struct {
	mu  sync.Mutex
	bus map[string]string
}

// collect reads the child's output until it ends.
func (a *acknowledged) collect(out *bufio.Scanner) {
	for out.Scan() {
		bus, id, _ := strings.Cut(out.Text(), " ")
		a.mu.Lock()
		a.bus[id] = bus
		a.mu.Unlock()
	}
}

func (a *acknowledged) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.bus)
}

// missing returns the events that the log in the folder does not have as they were.
func (a *acknowledged) missing(t *testing.T, dir string) (missing, total int) {
	t.Helper()
	l := open(t, Options{Dir: dir})
	defer closeLog(t, l)
	found := map[string]string{}
	for _, e := range journaltest.ReadAll(t, l, 0) {
		if e.Gap != nil {
			continue // what it stands for is missing below
		}
		ev, err := e.Event()
		if err != nil {
			t.Fatal(err)
		}
		found[e.ID] = ev.Payload.(event.ResourceUpdated).Name
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for id, bus := range a.bus {
		switch name := found[id]; name {
		case bus:
		case "":
			missing++
		default:
			t.Errorf("%s was acknowledged for %s and is %s", id, bus, name)
		}
	}
	return missing, len(a.bus)
}

func TestRealPowerCut(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount the image that is cut off; see the comment above device")
	}
	mkfs := peertest.Program(t, "mkfs.ext4")
	cuts := []int{1, 400, 1500, 4000} // after how many acknowledgements
	if testing.Short() {
		cuts = cuts[:2]
	}
	tmp := t.TempDir()
	image := filepath.Join(tmp, "disk")
	if err := errors.Join(os.WriteFile(image, nil, 0o600), os.Truncate(image, 128<<20)); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(mkfs, "-q", image).CombinedOutput(); err != nil {
		t.Skipf("mkfs.ext4: %v, %s", err, out)
	}
	disk := attach(t, image)
	cmd, out := startChild(t, "append", filepath.Join(disk.mount, "data"))
	acked := &acknowledged{bus: map[string]string{}}
	var reading sync.WaitGroup
	reading.Go(func() { acked.collect(out) })
	defer func() { // before the image is unmounted
		_ = cmd.Process.Kill()
		reading.Wait()
		_ = cmd.Wait() // killed
	}()
	for i, n := range cuts {
		journaltest.Eventually(t, time.Minute, fmt.Sprint(n, " events are acknowledged"), func() bool { return acked.count() >= n })
		if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		acked := acked.copy()
		again, unsynced := filepath.Join(tmp, fmt.Sprint("cut", i)), fmt.Sprint("unsynced", i)
		if err := os.WriteFile(filepath.Join(disk.mount, unsynced), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		disk.cut(t, again)
		if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
		next := attach(t, again)
		if text, _ := os.ReadFile(filepath.Join(next.mount, unsynced)); len(text) > 0 {
			t.Error("what was not synced is not lost, so nothing was cut")
		}
		missing, total := acked.missing(t, filepath.Join(next.mount, "data"))
		next.detach(t)
		if missing > 0 {
			t.Errorf("cut %d: %d of %d acknowledged events are lost", i, missing, total)
		}
	}
}

func (a *acknowledged) copy() *acknowledged {
	a.mu.Lock()
	defer a.mu.Unlock()
	return &acknowledged{bus: maps.Clone(a.bus)}
}
