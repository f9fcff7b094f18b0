package lines

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/output/termtext"
)

// On a terminal everything is in columns and fits, and a new day is a line of its own.
func TestTerminal(t *testing.T) {
	at := time.Date(2026, 11, 20, 23, 59, 58, 0, time.UTC)
	size := int64(2300)
	e := func(after time.Duration, server, uri string, p event.Payload) *event.Event {
		return &event.Event{ServerID: server, ResourceURI: uri, Timestamp: at.Add(after), Cause: event.CauseNotify, Payload: p}
	}
	events := []*event.Event{
		e(0, "docs", "", event.ServerState{State: event.Pending}),
		e(0, "docs", "", event.ServerState{State: event.Connecting}),
		e(0, "docs", "", event.ServerState{State: event.Ready, ProtocolVersion: "2025-11-25"}),
		e(0, "docs", "", event.SubscriptionActive{Resources: 12, Mode: event.Push}),
		e(0, "docs", "file:///guide.md", event.ResourceUpdated{Size: &size}),
		e(time.Second, "a-server-whose-name-is-far-too-long", "file:///home/ada/projects/engine/notes/of/long/ago/about/the/difference/engine.md", event.ResourceUpdated{Size: &size}),
		e(3*time.Second, "docs", "file:///guide.md", event.ResourceUpdated{Size: &size}),
		e(3*time.Second, "docs", "file:///日本語/👩‍👩‍👧‍👦.md", event.ResourceUpdated{Size: &size}),
		e(3*time.Second, "docs", "file:///new.md", event.ResourceAdded{}),
		e(3*time.Second, "docs", "", event.ListChanged{List: catalog.Tools, Added: []string{"a"}}),
		e(3*time.Second, "docs", "", event.ServerState{State: event.Stopping, Reason: "shutdown"}),
	}
	for _, width := range []int{80, 200} {
		var got strings.Builder
		w := Writer{W: &got, Columns: func() int { return width }}
		w.Servers("docs", "other")
		for _, e := range events {
			if err := w.Write(e); err != nil {
				t.Fatal(err)
			}
		}
		for line := range strings.Lines(got.String()) {
			if termtext.Width(strings.TrimSuffix(line, "\n")) > width {
				t.Errorf("wider than %d: %q", width, line)
			}
		}
		golden := filepath.Join("testdata", fmt.Sprintf("terminal%d.golden", width))
		if *update {
			if err := os.WriteFile(golden, []byte(got.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		// The first line has the date, as these events are not of today.
		if diff := cmp.Diff(string(want), got.String()); diff != "" {
			t.Error(diff)
		}
	}
}

// failing are the events of a server that fails over and over, in two ways, and recovers.
func failing(server string) (out []*event.Event) {
	at := time.Date(2026, 11, 20, 1, 2, 3, 0, time.UTC)
	add := func(st event.ServerState) {
		out = append(out, &event.Event{ServerID: server, Timestamp: at, Payload: st})
	}
	for i, cause := range []string{"exit status 3 after 1ms", "exit status 3 after 2.5ms", "exit status 3 after 1s", "connection refused"} {
		add(event.ServerState{State: event.Connecting})
		add(event.ServerState{State: event.Backoff, Error: cause, Attempt: i + 1, RetryIn: event.Milliseconds(time.Minute)})
	}
	add(event.ServerState{State: event.Connecting})
	add(event.ServerState{State: event.Ready})
	return out
}

// In a pipe a failure is a line when it is another one; with -v everything is.
func TestRepeatedFailures(t *testing.T) {
	for _, c := range []struct {
		verbose bool
		want    string
	}{
		{false, "retrying ready"},
		{true, "connecting retrying connecting retrying connecting retrying connecting retrying connecting ready"},
	} {
		var got strings.Builder
		w := Writer{W: &got, Verbose: c.verbose}
		if err := w.Write(failing("crashy")...); err != nil {
			t.Fatal(err)
		}
		var words []string
		for line := range strings.Lines(got.String()) {
			words = append(words, strings.Fields(line)[2])
		}
		want := c.want
		if !c.verbose {
			want = "retrying retrying ready" // exit status 3, connection refused
		}
		if strings.Join(words, " ") != want {
			t.Errorf("verbose %t:\n%s", c.verbose, &got)
		}
	}
}

// On a terminal, announcements without a change are omitted, and a long diff is cut.
func TestTerminalOmits(t *testing.T) {
	same, changed := false, true
	text := strings.Repeat("+line\n", 51)
	events := []*event.Event{
		{ServerID: "docs", ResourceURI: "file:///same", Payload: event.ResourceUpdated{Changed: &same}},
		{ServerID: "docs", ResourceURI: "file:///same", Payload: event.ResourceUpdated{Changed: &same}},
		{ServerID: "docs", ResourceURI: "file:///new", Payload: event.ResourceUpdated{Changed: &changed, Diff: &text}, Cause: event.CauseTrailing},
	}
	for _, c := range []struct {
		w     Writer
		omits bool
	}{{Writer{}, true}, {Writer{Wide: true}, false}, {Writer{Verbose: true}, false}} {
		var out strings.Builder
		c.w.W, c.w.Columns = &out, func() int { return 80 }
		if err := c.w.Write(events...); err != nil {
			t.Fatal(err)
		}
		if c.w.Hides(events[0]) != c.omits || c.w.Hides(events[2]) {
			t.Errorf("%+v: hides %t, %t", c, c.w.Hides(events[0]), c.w.Hides(events[2]))
		}
		got := out.String()
		if omitted := !strings.Contains(got, "file:///same"); omitted != c.omits {
			t.Errorf("announcements without a change: %+v:\n%s", c, got)
		}
		lines, cut := strings.Count(got, "+line"), strings.Contains(got, "… 31 more lines; use -o wide to see them")
		if want := map[bool]int{true: 51, false: 20}[c.w.Wide]; lines != want || cut != !c.w.Wide {
			t.Errorf("%d lines of the diff, want %d:\n%s", lines, want, got)
		}
		if strings.Contains(got, "end of a burst") != c.w.Wide {
			t.Errorf("the cause is shown only if the output is wide:\n%s", got)
		}
	}
}

// A list change already says that there is one more resource.
func TestWhatIsFollowedIsShownOnceASession(t *testing.T) {
	var out strings.Builder
	w := Writer{W: &out}
	active := func(n int, mode event.UpdateMode) *event.Event {
		return &event.Event{ServerID: "docs", Payload: event.SubscriptionActive{Resources: n, Mode: mode}}
	}
	state := func(s event.State) *event.Event {
		return &event.Event{ServerID: "docs", Payload: event.ServerState{State: s, ConnectedIn: event.Milliseconds(420 * time.Millisecond), ProtocolVersion: "2025-11-25"}}
	}
	one, two := "a\nb\n", "a\nc\nd\n"
	err := w.Write(state(event.Ready), active(1, event.Push), active(2, event.Push), active(3, event.Poll), state(event.Backoff), state(event.Ready), active(3, event.Poll),
		&event.Event{ServerID: "docs", ResourceURI: "file:///a", Cause: event.CauseNotify, Payload: event.ResourceUpdated{Text: &two, PreviousText: &one}})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		_, text, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "docs  ")
		got = append(got, text)
	}
	want := []string{"ready in 0.4s", "following  1 resource (push)", "following  3 resources (poll)", "retrying", "ready in 0.4s", "following  3 resources (poll)", "updated  file:///a  +2 −1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
