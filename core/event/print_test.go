package event

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

func TestEventString(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 24, 9, 30, 0, 5e6, time.UTC)
	yes, size := true, int64(57)
	for _, c := range []struct {
		event Event
		want  string
	}{
		{Event{ServerID: "docs", Payload: ServerState{State: Backoff, Previous: Ready, Error: "connection refused", RetryIn: Milliseconds(1500 * time.Millisecond)}},
			`docs server.state state=Backoff previous=Ready error="connection refused" retryInMs=1500`},
		{Event{ServerID: "docs", ResourceURI: "file:///a", Cause: CauseNotify, Payload: ResourceUpdated{Changed: &yes, Size: &size, Digest: catalog.Digest{1}}},
			`docs resource.updated file:///a cause=notify changed=true size=57`},
		{Event{ServerID: "docs", Payload: ListChanged{List: catalog.Tools, Added: []string{"a b"}, Removed: []string{}, Changed: []string{}}},
			`docs tools.list_changed added=["a b"]`},
		{Event{ServerID: "docs", ResourceURI: "file:///\x1b[2J\nfake", Payload: ResourceRemoved{}},
			`docs resource.removed file:///\x1b[2J\nfake`},
		{Event{}, ``},
	} {
		c.event.Timestamp = at
		want := strings.TrimSpace("2026-11-24T09:30:00.005Z " + c.want)
		if got := fmt.Sprint(c.event); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if got := fmt.Sprint(&c.event); got != want {
			t.Errorf("a pointer prints as %s", got)
		}
	}
}

// Every type of event has a String without addresses of pointers.
func TestEventStringOfEveryType(t *testing.T) {
	t.Parallel()
	for _, d := range Definitions() {
		payload, err := d.decode([]byte("{}"))
		if err != nil {
			t.Fatal(err)
		}
		if got := (Event{ServerID: "docs", Payload: payload}).String(); !strings.Contains(got, " docs "+string(d.Type)) || strings.Contains(got, "0xc0") || strings.Contains(got, "\n") {
			t.Errorf("%s prints as %s", d.Type, got)
		}
	}
}

func TestUnifiedDiff(t *testing.T) {
	t.Parallel()
	before, after, large := "a\nb\n", "a\nc\n", strings.Repeat("x", maxDiffed+1)
	update := func(from, to *string) string {
		return Event{ResourceURI: "file:///a\n", Payload: ResourceUpdated{PreviousText: from, Text: to}}.UnifiedDiff()
	}
	if got, want := update(&before, &after), "--- file:///a\\n\n+++ file:///a\\n\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, got := range []string{update(nil, &after), update(&before, nil), update(&after, &after), update(&large, &after), update(&before, &large),
		Event{Payload: ResourceAdded{}}.UnifiedDiff(), Event{}.UnifiedDiff()} {
		if got != "" {
			t.Errorf("a diff of nothing: %.80q", got)
		}
	}
}
