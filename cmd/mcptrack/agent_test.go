//go:build unix

package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// agentFolder is a folder with a vault of notes, and a config that follows it.
type agentFolder struct {
	*testing.T
	dir string
}

func newAgentFolder(t *testing.T) *agentFolder {
	t.Helper()
	f := &agentFolder{t, t.TempDir()}
	if err := os.Mkdir(filepath.Join(f.dir, "notes"), 0o700); err != nil {
		t.Fatal(err)
	}
	f.note("first", "# First\n")
	save(t, filepath.Join(f.dir, "mcp-servers.json"), fmt.Sprintf(
		`{"mcpServers": {"v": {"command": %q, "args": ["vault", "notes", "--stdio"], "trackResources": true, "include": ["vault://note/**"]}}}`, mcptrackPath(t)))
	return f
}

func (f *agentFolder) note(name, text string) {
	f.Helper()
	save(f.T, filepath.Join(f.dir, "notes", name+".md"), text)
}

// agentRun is a watch --agent that runs in the background.
type agentRun struct {
	*testing.T
	stop        func(syscall.Signal) // sends a signal and waits
	out, stderr written
}

// await waits until a text was printed.
func (r *agentRun) await(text string) {
	r.Helper()
	defer func() {
		if r.Failed() {
			r.Logf("stdout %q\n%s", r.out.String(), &r.stderr)
		}
	}()
	waitFor(r.T, text, func() bool { return strings.Contains(r.out.String(), text) })
}

func (f *agentFolder) run(args ...string) *agentRun {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	r := &agentRun{T: f.T}
	cmd := mcptrackCommand(ctx, append([]string{"watch", "--agent"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = f.dir, &r.out, &r.stderr
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+filepath.Join(f.dir, "state"), "MCPTRACK_TRUST="+f.dir)
	if err := cmd.Start(); err != nil {
		f.Fatal(err)
	}
	stopped := sync.OnceFunc(func() {
		_ = cmd.Wait()
		cancel()
	})
	r.stop = func(s syscall.Signal) {
		_ = cmd.Process.Signal(s)
		stopped()
	}
	f.Cleanup(func() { r.stop(syscall.SIGKILL) })
	return r
}

// once is what a single run prints.
func (f *agentFolder) once() string {
	f.Helper()
	r := f.run("--once")
	r.stop(0)
	if r.stderr.String() != "" {
		f.Errorf("%s", &r.stderr)
	}
	return r.out.String()
}

// Agent watches are killed at arbitrary moments. Each change is printed by the killed one or a later one.
func TestAgentLosesNothing(t *testing.T) {
	t.Parallel()
	f := newAgentFolder(t)
	if out := f.once(); out != "" {
		t.Errorf("the first run reports %q", out)
	}
	var printed strings.Builder
	rounds := 20
	if testing.Short() {
		rounds = 7 // one for each moment
	}
	for round := range rounds {
		f.note(fmt.Sprintf("a%d", round), "# A\n") // while no monitor runs
		r := f.run()
		time.Sleep(time.Duration(round%7) * 60 * time.Millisecond) // real: the note changes, and the kill comes, at another moment in each round
		f.note(fmt.Sprintf("b%d", round), "# B\n")
		if round%3 == 2 { // a line names only so many changes and counts the rest
			r.await(fmt.Sprintf("/b%d.md added", round))
			r.stop(syscall.SIGTERM)
		}
		r.stop(syscall.SIGKILL)
		printed.WriteString(r.out.String())
	}
	printed.WriteString(f.once())
	out := printed.String()
	for round := range rounds {
		for _, which := range "ab" {
			if want := fmt.Sprintf("vault://note/%c%d.md added", which, round); !strings.Contains(out, want) {
				t.Errorf("no %q in\n%s", want, out)
			}
		}
	}
	if out := f.once(); out != "" {
		t.Errorf("reported again: %q", out)
	}
}

// Two watches in one folder both report every change, config changes included, and a later run has nothing
// left to report.
func TestAgentsBesideEachOther(t *testing.T) {
	t.Parallel()
	f := newAgentFolder(t)
	f.once()
	f.note("away", "# Away\n")
	one := f.run()
	one.await("v: vault://note/away.md added\n")
	two := f.run()
	for n, over := 0, time.Now().Add(30*time.Second); !strings.Contains(two.out.String(), "/early"); n++ { // what one has reported before two began is not repeated
		if time.Now().After(over) {
			t.Fatalf("the second one reports nothing: %q\n%s", two.out.String(), &two.stderr)
		}
		f.note(fmt.Sprint("early", n), "# Early\n")
		time.Sleep(200 * time.Millisecond) // one note per interval, until the second watch reports one
	}
	f.note("both", "# Both\n")
	one.await("/both.md added")
	two.await("/both.md added")
	if strings.Contains(two.out.String(), "away") {
		t.Errorf("the second one repeats what the first has reported: %q", two.out.String())
	}
	config := filepath.Join(f.dir, "mcp-servers.json")
	was, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	save(t, config, `{"mcpServers": {`)
	one.await("mcptrack: config rejected\n")
	save(t, config, `{"mcpServers": {}}`)
	one.await("mcptrack: server v removed\n")
	f.note("first", "# First\n\nSecond\n") // while it is not followed
	save(t, config, string(was))
	one.await("/first.md updated")
	two.await("/first.md updated")
	one.stop(syscall.SIGTERM)
	two.stop(syscall.SIGINT)
	if out := f.once(); out != "" {
		t.Errorf("reported again: %q", out)
	}
}
