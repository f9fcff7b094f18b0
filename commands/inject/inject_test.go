package inject

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/output/realtime"
)

func TestProgressFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := &cli.Env{LookupEnv: func(name string) (string, bool) { return dir, name == "XDG_STATE_HOME" }}
	o := &options{}
	const feed = "http://h/events"
	o.endpoint.Query = map[string][]string{"call_id": {"rtc_1"}}
	first, err := o.progressFile(env, feed)
	if err != nil || first.Begin.Cursor != "" {
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
	again, err := o.progressFile(env, feed)
	if err != nil || again.Begin.Cursor != "a-1" || len(again.Begin.Newest) != 1 {
		t.Errorf("%+v, %v", again, err)
	}
	o.endpoint.Query["call_id"] = []string{"rtc_2"}
	if other, err := o.progressFile(env, feed); err != nil || other.Begin.Cursor != "" {
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
		if _, err := o.progressFile(env, feed); err == nil {
			t.Errorf("a damaged file of %d bytes was taken", len(damage))
		}
	}
	// Without a feed there is no progress to store.
	if c, err := o.progressFile(env, ""); err != nil || c.Save(progress, 0) != nil || c.Begin.Cursor != "" {
		t.Errorf("%+v, %v", c, err)
	}
}
