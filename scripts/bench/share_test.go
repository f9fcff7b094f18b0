//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestPublishedServers: the servers that are measured are those that are installed, one for each
// dependency.
func TestPublishedServers(t *testing.T) {
	data, err := os.ReadFile("servers/package.json")
	if err != nil {
		t.Fatal(err)
	}
	var manifest struct{ Dependencies map[string]string }
	if err := json.Unmarshal(data, &manifest); err != nil {
		t.Fatal(err)
	}
	data, err = os.ReadFile("servers/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct {
		Packages map[string]struct {
			Version string
			Bin     map[string]string
		}
	}
	if err := json.Unmarshal(data, &lock); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, s := range publishedServers("folder") {
		names = append(names, s.name)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(manifest.Dependencies)), func(dependency string) bool {
			p := lock.Packages["node_modules/"+dependency]
			return p.Version == manifest.Dependencies[dependency] && p.Bin[s.program] != ""
		}) {
			t.Errorf("%s: no package with an exact version has the program %s", s.name, s.program)
		}
	}
	slices.Sort(names)
	if len(slices.Compact(names)) != 10 || len(manifest.Dependencies) != 10 {
		t.Errorf("%d servers, %d packages", len(names), len(manifest.Dependencies))
	}
}

// TestNotes: what a reader must know is a line of the table, and ratios come from the rows of one
// run.
func TestNotes(t *testing.T) {
	r := newReport()
	r.Load = 0
	r.Notes = append(r.Notes, "not compared: another program (not published)")
	for _, mib := range []float64{3600, 4400, 4000} {
		r.add(shareScenario, "PSS", "MiB", "direct", mib)
	}
	r.add(shareScenario, "PSS", "MiB", "mcptrack", 1000)
	r.ratio(0.2, shareScenario, "PSS", "direct")
	r.ratio(0.2, shareScenario, "PSS", "another program")
	var out strings.Builder
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	if len(r.Goals) != 1 || r.Goals[0].Value != 0.25 || r.Goals[0].Met {
		t.Errorf("%+v", r.Goals)
	}
	if !strings.Contains(out.String(), "\nnot compared: another program (not published)\n") {
		t.Error(out.String())
	}
}

// answers is the input of a server.
type answers struct{ strings.Builder }

func (*answers) Close() error { return nil }

// TestAnswer: the server is told the roots that it asks for. Only the answer to the last request counts:
// notifications, requests of the server with the same id and text that is no message are skipped, and
// an error is an error.
func TestAnswer(t *testing.T) {
	var sent answers
	c := &stdioClient{cmd: exec.Command("server"), ids: 2, in: &sent, out: bufio.NewReader(strings.NewReader(
		"Starting…\n" + `{"jsonrpc":"2.0","method":"notifications/message"}` + "\n" +
			`{"jsonrpc":"2.0","id":2,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":"a","method":"roots/list"}` + "\n" + `{"jsonrpc":"2.0","id":1,"result":{"late":true}}` + "\n" +
			`{"jsonrpc":"2.0","id":2,"result":{"tools":[]}}` + "\n" + `{"jsonrpc":"2.0","id":2,"error":{"code":-32601}}` + "\n"))}
	if got, err := c.answer(); err != nil || string(got) != `{"tools":[]}` {
		t.Errorf("%s, %v", got, err)
	}
	if sent.String() != `{"jsonrpc":"2.0","id":"a","result":{"roots":[]}}`+"\n" {
		t.Error(sent.String())
	}
	if got, err := c.answer(); err == nil || !strings.Contains(err.Error(), "-32601") {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := c.answer(); err == nil {
		t.Error("the end of the output is no error")
	}
}

// TestDescendants: what a child starts is found, and a process that has ended is not.
func TestDescendants(t *testing.T) {
	for _, stat := range []string{"7 (a) (b) S 3 7 7", "7 (a\n) S 3", "7 () ) R 3 1"} {
		if pid, parent, err := parentOf(stat); pid != 7 || parent != 3 || err != nil {
			t.Errorf("%q: %d, %d, %v", stat, pid, parent, err)
		}
	}
	if _, parent, err := parentOf("7 (sh) Z 3 7"); parent != 0 || err != nil {
		t.Errorf("ended: %d, %v", parent, err)
	}
	for _, stat := range []string{"", "7 (sh", "7 (sh) S", "x (sh) S 3"} {
		if _, _, err := parentOf(stat); err == nil {
			t.Errorf("%q is accepted", stat)
		}
	}
	cmd := exec.Command("sh", "-c", "sleep 60 & echo $!; wait")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	grandchild, err2 := strconv.Atoi(strings.TrimSpace(line))
	if err != nil || err2 != nil {
		t.Fatal(line, err, err2)
	}
	found, err := descendants(os.Getpid())
	if err != nil || !slices.Contains(found, cmd.Process.Pid) || !slices.Contains(found, grandchild) {
		t.Errorf("%v has no %d or %d: %v", found, cmd.Process.Pid, grandchild, err)
	}
	if mib, err := proportional(found); err != nil || mib <= 0 {
		t.Errorf("%v MiB: %v", mib, err)
	}
	if err := syscall.Kill(grandchild, syscall.SIGTERM); err != nil {
		t.Error(err)
	}
	_ = cmd.Wait()
	if found, err = descendants(os.Getpid()); err != nil || slices.Contains(found, cmd.Process.Pid) {
		t.Errorf("%v has %d: %v", found, cmd.Process.Pid, err)
	}
}
