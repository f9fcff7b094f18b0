package sqlitelog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// The test fills the file system of a log, and frees it. What was stored can be read meanwhile;
// what waits is then stored, in order and once. Different sizes are left free, so that the disk
// becomes full in different steps.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	sizes := []int64{0, 100 << 10, 20 << 10, 300 << 10}
	if testing.Short() {
		sizes = sizes[:2]
	}
	for _, free := range sizes {
		t.Run(fmt.Sprint(free), func(t *testing.T) {
			disk := filepath.Join(t.TempDir(), "disk")
			if err := os.Mkdir(disk, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mount("none", disk, "tmpfs", 0, "size=64m,mode=700"); err != nil {
				t.Skip(err)
			}
			t.Cleanup(func() { // lazily: a process that another test forks may still have files open
				if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
					t.Error(err)
				}
			})
			l := open(t, Options{Dir: filepath.Join(disk, "data"), KeepContent: 1 << 20})
			s := new(journaltest.Source)
			journaltest.AppendN(t, l, s, 300)
			ballast := fill(t, filepath.Join(disk, "ballast"), free)
			items := 0
			for i := 0; l.Err() == nil || l.Stats().Failures < 3; i++ {
				if err := l.Append(s.Next(journaltest.URI(i))); err != nil {
					t.Fatal(err)
				}
				items++
				if i < 10 {
					l.Contents().Put(journaltest.Digest(uint64(i+1)), fmt.Sprint("text ", i))
				}
				if i%100 == 0 || i > 2000 { // all of them must fit later
					time.Sleep(time.Millisecond) // a pause for the writer and its real disk
				}
			}
			b, err := l.Bounds(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			journaltest.InOrder(t, journaltest.ReadAll(t, l, 0), l.Epoch(), 1, int(b.Last))
			if err := os.Remove(ballast); err != nil {
				t.Fatal(err)
			}
			if err := l.Flush(t.Context()); err != nil {
				t.Fatal(err)
			}
			journaltest.InOrder(t, journaltest.ReadAll(t, l, 0), l.Epoch(), 1, 300+items)
			journaltest.Eventually(t, time.Minute, "Err is nil", func() bool { return l.Err() == nil })
			epoch := l.Epoch()
			closeLog(t, l)
			l = open(t, Options{Dir: filepath.Join(disk, "data"), KeepContent: 1 << 20})
			there, missing := truthful(t, journaltest.ReadAll(t, l, 0))
			if l.Epoch() != epoch || missing != 0 || there != 300+items || l.Stats().Damages != 0 {
				t.Errorf("%d there, %d missing, epoch kept: %v, %+v", there, missing, l.Epoch() == epoch, l.Stats())
			}
			for i := range 10 {
				if text, ok, err := l.Contents().Get(t.Context(), journaltest.Digest(uint64(i+1))); text != fmt.Sprint("text ", i) || !ok || err != nil {
					t.Errorf("text %d is %q, %v", i, text, err)
				}
			}
			closeLog(t, l)
		})
	}
}

// A log on a volume that has little more room than the events to retain keeps storing.
func TestSmallVolume(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	disk := filepath.Join(t.TempDir(), "disk")
	if err := os.Mkdir(disk, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=8m,mode=700"); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	opts := Options{Dir: filepath.Join(disk, "data"), RetainBytes: 2 << 20}
	l := open(t, opts)
	s := new(journaltest.Source)
	for range 50 { // several times as much as the volume holds
		journaltest.AppendN(t, l, s, 1000)
	}
	if st := l.Stats(); l.Err() != nil || st.Failures != 0 {
		t.Errorf("%v, %+v", l.Err(), st)
	}
	closeLog(t, l)
}

// fill writes a file that leaves free bytes.
func fill(t *testing.T, path string, free int64) string {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(f, endless{})
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("%d bytes: %v", n, err)
	}
	if err := errors.Join(f.Truncate(max(n-free, 0)), f.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

// endless reads as zeros.
type endless struct{}

func (endless) Read(b []byte) (int, error) { clear(b); return len(b), nil }

// The error says that there is no room.
func TestNoRoomForANewLog(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may mount a small file system")
	}
	disk := t.TempDir()
	if err := syscall.Mount("none", disk, "tmpfs", 0, "size=64k,mode=700"); err != nil {
		t.Skip(err)
	}
	fill(t, filepath.Join(disk, "ballast"), 8<<10)
	_, err := Open(t.Context(), Options{Dir: filepath.Join(disk, "data"), Durability: journal.Always})
	if err == nil {
		t.Error("a log was opened on a full disk")
	}
	t.Log(err)
	if err := syscall.Unmount(disk, syscall.MNT_DETACH); err != nil {
		t.Error(err)
	}
}
