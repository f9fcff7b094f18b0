package journal

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/event"
)

// child is a process of a test with a journal in childDir.
// "append" appends for ever, and prints "<bus id> <id>" when an event is durable.
func child(what string) int {
	dir := os.Getenv(childDir)
	var err error
	switch what {
	case "append":
		err = childAppend(dir)
	case "fill":
		err = childFill(dir)
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

const (
	childDir        = "MCPTRACK_JOURNAL_DIR"
	childDurability = "MCPTRACK_JOURNAL_DURABILITY" // of "append"; empty for the default
)

func childAppend(dir string) error {
	ctx := context.Background()
	j, err := Open(ctx, Options{Dir: dir, Durability: Durability(os.Getenv(childDurability)), Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return err
	}
	s := newSource()
	out := bufio.NewWriter(os.Stdout)
	const window = 200 // several in flight, so that groups are cut by the kill
	waiting := make([]*item, 0, window)
	for n := 0; ; n++ {
		it := &item{event: s.next(uri(n % 100)), done: make(chan outcome, 1)}
		if err := j.writer.queue.push(it); err != nil {
			return err
		}
		if waiting = append(waiting, it); len(waiting) < window {
			continue
		}
		o := <-waiting[0].done
		if o.err != nil {
			return o.err
		}
		fmt.Fprintln(out, waiting[0].event.ID, o.entry.ID)
		if err := out.Flush(); err != nil {
			return err
		}
		waiting = waiting[1:]
	}
}

func startChild(t *testing.T, what, dir string, env ...string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	cmd.Env = append(append(os.Environ(), childEnv+"="+what, childDir+"="+dir), env...)
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

// TestKillLosesNothingAcknowledged kills a process that appends, at
// different points, and looks for every event that was acknowledged as durable.
func TestKillLosesNothingAcknowledged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	acked := map[string]string{} // id → bus id
	last := ""
	for round, upTo := range []int{1, 130, 777} {
		cmd, out := startChild(t, "append", dir)
		for n := 0; out.Scan(); n++ {
			bus, id, _ := strings.Cut(out.Text(), " ")
			if other, twice := acked[id]; twice {
				t.Fatalf("round %d: %s is the id of %s and of %s", round, id, other, bus)
			}
			acked[id], last = bus, id
			if n == upTo {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // killed
	}
	j := open(t, Options{Dir: dir})
	found, buses := map[string]bool{}, map[string]bool{}
	for i, e := range read(t, j, 0) {
		if e.Gap != nil || e.Seq != uint64(i+1) {
			t.Fatalf("entry %d is %s", i, e.Data)
		}
		ev, err := e.Event()
		if err != nil {
			t.Fatal(err)
		}
		name := ev.Payload.(event.ResourceUpdated).Name
		if bus, ok := acked[e.ID]; ok && "n"+bus[strings.Index(bus, "-")+1:] != name {
			t.Errorf("%s was %s and is %s", e.ID, bus, name)
		}
		found[e.ID] = true
		buses[name] = true
	}
	for id := range acked {
		if !found[id] {
			t.Errorf("%s was acknowledged and is lost (the last was %s)", id, last)
		}
	}
	if len(acked) < 900 {
		t.Errorf("only %d events were acknowledged: the test proves little", len(acked))
	}
}
