package inject

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/output/realtime"
)

func TestFeedEvent(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, id, data, want string // want: id, server, URI and time; "": nothing
		bad                  bool
	}{
		{"update", "a-1", `{"id":"a-1","type":"resource.updated","serverId":"s","resourceUri":"u:1","timestamp":"2026-11-20T19:37:25.123Z"}`, "a-1 s u:1 2026-11-20T19:37:25.123Z", false},
		{"VibeChat", "a-2", `{"type":"resource_update","serverId":"s","resourceUri":"u:1","timestamp":1795203445123}`, "a-2 s u:1 2026-11-20T19:37:25.123Z", false},
		{"VibeChat without id", "", `{"type":"resource_update","serverId":"s","resourceUri":"u:1","timestamp":1795203445123}`, " s u:1 2026-11-20T19:37:25.123Z", false},
		{"VibeChat with an id of another", "17", `{"type":"resource_update","serverId":"s","resourceUri":"u:1","timestamp":1795203445123}`, " s u:1 2026-11-20T19:37:25.123Z", false},
		{"gap", "a-9", `{"id":"a-9","type":"gap","timestamp":"2026-11-20T19:37:25.123Z","from":"a-1","to":"a-9","reason":"retention"}`, "a-9   2026-11-20T19:37:25.123Z", false},
		{"checkpoint", "a-9", `{"id":"a-9","type":"checkpoint","timestamp":"2026-11-20T19:37:25.123Z","seq":9}`, "", false},
		{"end of the feed", "", `{"type":"tracker_stopped","timestamp":"2026-11-20T19:37:25.123Z"}`, "", false},
		{"handshake", "", `{"type":"connected","message":"hello"}`, "", false},
		{"error", "", `{"type":"resource_error","serverId":"s","timestamp":1,"error":"x"}`, "", false},
		{"of the future", "a-3", `{"type":"resource.moved","serverId":"s"}`, "", false},
		{"no JSON", "", `nonsense`, "", true},
		{"no time", "", `{"type":"resource_update","serverId":"s","resourceUri":"u:1","timestamp":"soon"}`, "", true},
		{"no resource", "", `{"type":"resource_update","serverId":"s","timestamp":1}`, "", true},
		{"bad id", "", `{"id":"x","type":"resource.updated","serverId":"s","resourceUri":"u:1","timestamp":"2026-11-20T19:37:25.123Z"}`, "", true},
	} {
		e, err := feedEvent(eventstream.Event{ID: c.id, Data: c.data})
		got := ""
		if e != nil {
			got = strings.Join([]string{e.ID, e.ServerID, e.ResourceURI, e.Timestamp.Format(event.TimeFormat)}, " ")
		}
		if got != c.want || (err != nil) != c.bad {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
}

func TestParseFeed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"http://127.0.0.1:8722":                          "http://127.0.0.1:8722/events?type=resource.updated&type=gap",
		"https://h/?server=docs":                         "https://h/events?server=docs&type=resource.updated&type=gap",
		"https://h/events?type=x#f":                      "https://h/events?type=x",
		"http://localhost:1/api/mcp/resource-events?a=b": "http://localhost:1/api/mcp/resource-events?a=b",
		"h:1": "http://h:1/events?type=resource.updated&type=gap", "8722": "http://127.0.0.1:8722/events?type=resource.updated&type=gap",
		"ws://h": "", "h": "", "http://": "", "http://u:p@h": "", "http://h/%zz": "",
	} {
		f, err := parseFeed(text)
		if want == "" {
			if err == nil || strings.Contains(err.Error(), "u:p") {
				t.Errorf("%s: %v", text, err)
			}
			continue
		}
		if err != nil || f.url.String() != want || strings.Contains(f.address(), "?") {
			t.Errorf("%s: %v, %v", text, f.url, err)
		}
	}
}

func TestProgressFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := &cli.Env{LookupEnv: func(name string) (string, bool) { return dir, name == "XDG_STATE_HOME" }}
	o := &options{}
	o.from, o.callID = "http://h", "rtc_1"
	o.feed, _ = parseFeed(o.from)
	o.endpoint.Query = map[string][]string{"call_id": {"rtc_1"}}
	first, err := o.progressFile(env)
	if err != nil || first.Begin().Cursor != "" {
		t.Fatalf("%+v, %v", first, err)
	}
	want := realtime.Progress{Cursor: "a-1", Newest: map[string]uint64{"x": 3}}
	calls := 0
	progress := func() realtime.Progress { calls++; return want }
	for range 3 {
		if err := first.Save(progress, time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	if calls != 1 {
		t.Errorf("saved %d times within an hour", calls)
	}
	again, err := o.progressFile(env)
	if err != nil || again.Begin().Cursor != "a-1" || len(again.Begin().Newest) != 1 {
		t.Errorf("%+v, %v", again, err)
	}
	o.endpoint.Query["call_id"] = []string{"rtc_2"}
	if other, err := o.progressFile(env); err != nil || other.Begin().Cursor != "" {
		t.Errorf("another call has the progress of this one: %+v, %v", other, err)
	}
	o.endpoint.Query["call_id"] = []string{"rtc_1"}
	files, err := filepath.Glob(filepath.Join(dir, "mcptrack", "inject", "*"))
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	if info, err := os.Stat(files[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	for _, damage := range []string{"{", strings.Repeat("x", 2<<20)} {
		if err := os.WriteFile(files[0], []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := o.progressFile(env); err == nil {
			t.Errorf("a damaged file of %d bytes was taken", len(damage))
		}
	}
	// Without a feed there is no progress to store.
	o.from = ""
	if c, err := o.progressFile(env); err != nil || c.Save(progress, 0) != nil || c.Begin().Cursor != "" {
		t.Errorf("%+v, %v", c, err)
	}
}
