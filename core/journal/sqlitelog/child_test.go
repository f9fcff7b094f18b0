package sqlitelog

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// child is the process of a test with a log in childDir. "append" appends for ever, and prints
// "<name> <id>" when an event is durable. "read" prints the number of the last event, and then keeps the
// file open.
func child(what string) int {
	dir := os.Getenv(childDir)
	var err error
	switch what {
	case "append":
		err = childAppend(dir)
	case "read":
		err = childRead(dir)
	case "full":
		return childFull(dir)
	default:
		err = fmt.Errorf("nothing is called %q", what)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

const childDir = "MCPTRACK_LOG_DIR"

func childAppend(dir string) error {
	l, err := Open(context.Background(), Options{Dir: dir, Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	s := new(journaltest.Source)
	at, err := l.Bounds(context.Background())
	if err != nil {
		return err
	}
	next := func() error { return l.Append(s.Next(journaltest.URI(s.N % 100))) }
	for range 200 { // several in flight, so that groups are cut by the kill
		if err := next(); err != nil {
			return err
		}
	}
	for e, err := range l.Follow(context.Background(), at.Last+1) {
		if err != nil {
			return err
		}
		ev, err := e.Event()
		if err != nil {
			return err
		}
		if _, err := fmt.Println(ev.Payload.(event.ResourceUpdated).Name, e.ID); err != nil {
			return err
		}
		if err := next(); err != nil {
			return err
		}
	}
	return nil
}

func childRead(dir string) error {
	l, err := Open(context.Background(), Options{Dir: dir, Existing: true})
	if err != nil {
		return err
	}
	last := uint64(0)
	for e, err := range l.Read(context.Background(), 0) {
		if err != nil {
			return err
		}
		last = e.Seq
	}
	fmt.Println(last)
	time.Sleep(time.Hour)
	return nil
}

func startChild(t *testing.T, what, dir string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(os.Environ(), childEnv+"="+what, childDir+"="+dir)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, bufio.NewScanner(out)
}

// The test kills a process that appends, at different points, while a reader in this process
// resumes, and looks for every event that was acknowledged as durable. The reader gets every event
// once.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acked := map[string]string{} // id → name
	last, next := "", uint64(1)
	seen := map[uint64]string{} // by the reader
	for round, upTo := range []int{1, 130, 777} {
		cmd, out := startChild(t, "append", dir)
		for n := 0; out.Scan(); n++ {
			name, id, _ := strings.Cut(out.Text(), " ")
			if other, twice := acked[id]; twice {
				t.Fatalf("round %d: %s is the id of %s and of %s", round, id, other, name)
			}
			acked[id], last = name, id
			if n == upTo/2 {
				next = resume(t, dir, next, seen)
			}
			if n == upTo {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // killed
		next = resume(t, dir, next, seen)
	}
	l := open(t, Options{Dir: dir})
	found := map[string]bool{}
	for i, e := range journaltest.ReadAll(t, l, 0) {
		if e.Gap != nil || e.Seq != uint64(i+1) {
			t.Fatalf("entry %d is %s", i, e.Data())
		}
		ev, err := e.Event()
		if err != nil {
			t.Fatal(err)
		}
		name := ev.Payload.(event.ResourceUpdated).Name
		if own, ok := acked[e.ID]; ok && own != name {
			t.Errorf("%s was %s and is %s", e.ID, own, name)
		}
		if was := cmp.Or(seen[e.Seq], string(e.Data())); was != string(e.Data()) {
			t.Errorf("%s was seen as %s and is %s", e.ID, was, e.Data())
		}
		found[e.ID] = true
	}
	for id := range acked {
		if !found[id] {
			t.Errorf("%s was acknowledged and is lost (the last was %s)", id, last)
		}
	}
	if len(acked) < 900 || len(seen) < 900 {
		t.Errorf("only %d events were acknowledged and %d seen: the test proves little", len(acked), len(seen))
	}
}

// resume reads from number next on, in a process that only reads, and returns the next number.
func resume(t *testing.T, dir string, next uint64, seen map[uint64]string) uint64 {
	t.Helper()
	l := open(t, Options{Dir: dir, Existing: true})
	defer closeLog(t, l)
	r, err := l.Resume(t.Context(), event.FormatID(l.Epoch(), next-1))
	if err != nil || r.Gap != nil || r.From != next {
		t.Fatalf("resumed with %+v, %v", r, err)
	}
	for _, e := range journaltest.ReadAll(t, l, next) {
		if e.Seq != next || e.Gap != nil {
			t.Fatalf("%s comes where %d should", e.Data(), next)
		}
		seen[next] = string(e.Data())
		next++
	}
	return next
}
