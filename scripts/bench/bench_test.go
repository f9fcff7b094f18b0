//go:build linux

package main

import (
	"os/exec"
	"strings"
	"testing"
)

// TestLimits: a limit compares medians of one run. What is not measured has none.
func TestLimits(t *testing.T) {
	r := newReport()
	for _, mib := range []float64{3600, 4400, 4000} {
		r.add("share", "PSS", "MiB", "direct", mib)
	}
	r.add("share", "PSS", "MiB", "mcptrack", 1000)
	r.check([]limit{ratio(0.25, "share", "PSS", "direct"), atMost(1000, "share", "PSS"), atLeast(1000, "share", "PSS"),
		ratio(0.2, "share", "PSS", "another"), atMost(1, "share", "RSS")})
	if len(r.Goals) != 3 || r.Goals[0].Value != 0.25 || r.verdict() != nil {
		t.Errorf("%+v, %v", r.Goals, r.verdict())
	}
	for _, l := range []limit{ratio(0.2, "share", "PSS", "direct"), atMost(999, "share", "PSS"), atLeast(1001, "share", "PSS")} {
		r.Goals = nil
		r.check([]limit{l})
		if r.verdict() == nil {
			t.Errorf("%+v is met", l)
		}
	}
}

// TestOnly: an unknown or repeated name is an error.
func TestOnly(t *testing.T) {
	b := &bench{}
	for list, want := range map[string]int{"": len(b.scenarios()), "list,": 1, "log,list": 2, "lists": 0, "list,list": 0, ",": 0} {
		if wanted, err := b.selected(list); len(wanted) != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d scenarios, %v", list, len(wanted), err)
		}
	}
}

// answers is the input of a server.
type answers struct{ strings.Builder }

func (*answers) Close() error { return nil }

// TestAnswer: the server is told the roots that it asks for. Only the answer to the last request counts:
// notifications, requests of the server with the same id and text that is not a message are skipped, and
// an error is an error.
func TestAnswer(t *testing.T) {
	var sent answers
	p := &process{cmd: exec.Command("server"), in: &sent, out: newLines(strings.NewReader(
		"Starting…\n"+`{"jsonrpc":"2.0","method":"notifications/message"}`+"\n"+
			`{"jsonrpc":"2.0","id":1,"method":"ping"}`+"\n"+`{"jsonrpc":"2.0","id":"a","method":"roots/list"}`+"\n"+`{"jsonrpc":"2.0","id":0,"result":{"late":true}}`+"\n"+
			`{"jsonrpc":"2.0","id":1,"result":{"tools":[]}}`+"\n"+`{"jsonrpc":"2.0","id":2,"error":{"code":-32601}}`+"\n"), 16)}
	if got, err := p.ask("tools/list", nil); err != nil || string(got) != `{"tools":[]}` {
		t.Errorf("%s, %v", got, err)
	}
	if !strings.HasSuffix(sent.String(), `{"jsonrpc":"2.0","id":"a","result":{"roots":[]}}`+"\n") {
		t.Error(sent.String())
	}
	if got, err := p.ask("tools/list", nil); err == nil || !strings.Contains(err.Error(), "-32601") {
		t.Errorf("%s, %v", got, err)
	}
	if _, err := p.ask("tools/list", nil); err == nil {
		t.Error("the end of the output is no error")
	}
}
