package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// broken is an output that fails after some bytes.
type broken struct{ room int }

func (b *broken) Write(p []byte) (int, error) {
	if len(p) > b.room {
		return b.room, errors.New("no room")
	}
	b.room -= len(p)
	return len(p), nil
}

// TestReplay: events printed as stored equal events printed after decoding, filters only remove events,
// and a failing output is a failure.
func TestReplay(t *testing.T) {
	const n = 1500
	dir := t.TempDir()
	j, err := sqlitelog.Open(t.Context(), sqlitelog.Options{Dir: dir, Durability: journal.Interval})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		e := event.Event{ServerID: []string{"a", "b"}[i%2], Timestamp: time.Now(), Payload: event.ServerState{State: event.Ready}}
		if i%3 == 0 {
			e.ResourceURI, e.Cause = fmt.Sprintf("file:///%d\n\u202e<b>", i), event.CauseNotify
			e.Payload = event.ResourceUpdated{Name: strings.Repeat("é", i%50)}
		}
		if err := j.Append(&e); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	replay := func(args ...string) []string {
		t.Helper()
		var out, errs clitest.Buffer
		env := &cli.Env{Out: &out, Err: &errs, LookupEnv: func(string) (string, bool) { return "", false }}
		if code := Main(context.Background(), env, append([]string{"replay", "--data-dir", dir}, args...)); code != 0 {
			t.Fatalf("%q: exit %d, %s", args, code, &errs)
		}
		return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	}
	all := replay()
	if len(all) != n {
		t.Fatalf("%d lines, want %d", len(all), n)
	}
	var want, ids []string
	for i, line := range all {
		var e event.Event
		if err := json.Unmarshal([]byte(line), &e); err != nil || e.Seq != uint64(i+1) {
			t.Fatalf("line %d is %s: %v", i+1, line, err)
		}
		ids = append(ids, e.ID)
		if e.ServerID == "b" && e.Type() == event.TypeResourceUpdated {
			want = append(want, line)
		}
	}
	if got := replay("--type", "*"); strings.Join(got, "\n") != strings.Join(all, "\n") {
		t.Error("decoded, it is not what was stored")
	}
	if got := replay("--type", "resource.*", "--server", "b"); strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("filtered, there are %d lines, want %d", len(got), len(want))
	}
	if got := replay("--since", ids[n-4]); strings.Join(got, "\n") != strings.Join(all[n-3:], "\n") {
		t.Errorf("the last three are %q", got)
	}
	if got := replay("-o", "table"); len(got) != n || json.Valid([]byte(got[0])) || !strings.Contains(got[0], "updated") {
		t.Errorf("as a table: %d lines, %q", len(got), got[0])
	}
	for since, want := range map[string]int{time.Now().Add(-time.Hour).Format(time.RFC3339): n, time.Now().Add(30 * time.Second).UTC().Format(time.RFC3339Nano): 0} {
		got := replay("--since", since)
		if len(got) == 1 && got[0] == "" {
			got = nil
		}
		if len(got) != want {
			t.Errorf("since %s: %d lines, want %d", since, len(got), want)
		}
	}
	running, err := sqlitelog.Open(t.Context(), sqlitelog.Options{Dir: dir, Durability: journal.Interval})
	if err != nil {
		t.Fatal(err)
	}
	if got := replay(); strings.Join(got, "\n") != strings.Join(all, "\n") {
		t.Errorf("of a running log: %d lines, %.200q", len(got), got)
	}
	if err := running.Close(); err != nil {
		t.Fatal(err)
	}
	var errs clitest.Buffer
	env := &cli.Env{Out: &broken{room: 100_000}, Err: &errs, LookupEnv: func(string) (string, bool) { return "", false }}
	if code := Main(context.Background(), env, []string{"replay", "--data-dir", dir}); code != cli.ExitFailed || !strings.Contains(errs.String(), "no room") {
		t.Errorf("exit %d, %s", code, &errs)
	}
}

// TestRealReplaySkipsForeignEntries: on a cluster anybody can store anything. Every entry is one line, events
// are JSON, nothing hidden reaches a terminal, and an entry that is not an event becomes a gap.
func TestRealReplaySkipsForeignEntries(t *testing.T) {
	url := journaltest.Store(t)
	j, err := natslog.Open(t.Context(), natslog.Options{URL: url, Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const head = `{"type":"server.state","serverId":"a","timestamp":"2026-11-21T11:00:00.000Z",`
	foreign := []string{
		"{\"type\":\"server.state\",\n\"serverId\":\"a\",\"timestamp\":\"2026-11-21T11:00:00.000Z\",\n\"state\":\"Ready\"}",
		head + "\r\"state\":\"Ready\"}",
		head + "\"state\":\"Ready\",\"reason\":\"\u009b2J\u202e\"}",
		head + "\"state\":\"Ready\",\"reason\":\"\x9b2J\"}", // not UTF-8
		head + `"state":"\u001b[2J\u001b]0;owned\u0007"}`,
		`{"type":"of.tomorrow","timestamp":"2026-11-21T11:00:00.000Z"}`,
		`{"type":"server.state`,
		"text",
		"",
	}
	for _, data := range foreign {
		if _, err := nc.Request("mcptrack.event.x.-", []byte(data), 10*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	last := journaltest.Append(t, j, &event.Event{ServerID: "a", Timestamp: time.Now(), Payload: event.ServerState{State: event.Ready}})
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	for _, tty := range []bool{false, true} {
		for _, args := range [][]string{nil, {"--json"}, {"--type", "*"}, {"--type", "*", "--json"}, {"-o", "yaml"}, {"-o", "wide"}} {
			var out, errs clitest.Buffer
			env := &cli.Env{Out: &out, Err: &errs, OutTTY: tty, LookupEnv: func(string) (string, bool) { return "", false }}
			if code := Main(t.Context(), env, append([]string{"replay", "--nats", url}, args...)); code != cli.ExitOK {
				t.Errorf("TTY %t, %q: exit %d, %s", tty, args, code, &errs)
			}
			text := out.String()
			if shown := printable.Lines(text); shown != text && !tty { // a terminal gets colours
				t.Errorf("%q: hidden characters in %q", args, text)
			}
			if strings.ContainsAny(text, "\r\a\u009b\u202e") || strings.Contains(text, "\x1b[2J") || !utf8.ValidString(text) {
				t.Errorf("TTY %t, %q: hidden characters in %q", tty, args, text)
			}
			if slices.Contains(args, "yaml") {
				continue // has several lines
			}
			lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
			if len(lines) != len(foreign)+1 {
				t.Errorf("TTY %t, %q: %d lines: %q", tty, args, len(lines), lines)
			}
			if slices.Contains(args, "--json") && !strings.HasPrefix(lines[len(lines)-1], string(last.Data())) {
				t.Errorf("TTY %t, %q: the last line is %s", tty, args, lines[len(lines)-1])
			}
			for _, line := range lines {
				if slices.Contains(args, "--json") && !json.Valid([]byte(line)) {
					t.Errorf("TTY %t, %q: %q is no JSON", tty, args, line)
				}
			}
		}
	}
}
