package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// broken is an output that takes some bytes and then fails.
type broken struct{ room int }

func (b *broken) Write(p []byte) (int, error) {
	if len(p) > b.room {
		return b.room, errors.New("no room")
	}
	b.room -= len(p)
	return len(p), nil
}

// TestReplay: what is printed as it was stored is what is printed after decoding,
// filters take away and add nothing, and an output that fails is a failure.
func TestReplay(t *testing.T) {
	const n = 3000
	dir := t.TempDir()
	j, err := journal.Open(t.Context(), journal.Options{Dir: dir, Durability: journal.OS})
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
		var out, errs bytes.Buffer
		env := &Env{Out: &out, Err: &errs, LookupEnv: func(string) (string, bool) { return "", false }}
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
	var errs bytes.Buffer
	env := &Env{Out: &broken{room: 100_000}, Err: &errs, LookupEnv: func(string) (string, bool) { return "", false }}
	if code := Main(context.Background(), env, []string{"replay", "--data-dir", dir}); code != exitFailed || !strings.Contains(errs.String(), "no room") {
		t.Errorf("exit %d, %s", code, &errs)
	}
}
