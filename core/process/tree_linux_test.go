package process

import (
	"os"
	"os/exec"
	"testing"

	"golang.org/x/sys/unix"
)

// A subreaper without children has no descendants, not even dead ones. Without that role, a process
// cannot know, because orphans go to another process.
func TestChildless(t *testing.T) {
	const key = "PROCESS_TEST_CHILDLESS"
	if os.Getenv(key) == "" { // a separate process: other tests may leave children to this one
		again := exec.Command(os.Args[0], "-test.run=^TestChildless$")
		again.Env = append(os.Environ(), key+"=1", "GOCOVERDIR="+t.TempDir())
		if out, err := again.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	expect := func(want bool, when string) {
		t.Helper()
		if got := childless(); got != want {
			t.Errorf("%s: childless is %v", when, got)
		}
	}
	expect(true, "at the start")
	child := exec.Command("cat")
	stdin, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	expect(false, "while a child runs")
	stdin.Close()
	if !awaitExit(child.Process.Pid) {
		t.Skip("this kernel cannot wait without reaping")
	}
	expect(false, "with a zombie")
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	expect(true, "after the last child was reaped")
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	expect(false, "without being a subreaper")
}
