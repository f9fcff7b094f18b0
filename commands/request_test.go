package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// bench is an Env with one server, "notes", that is in this process.
type bench struct {
	Env
	server   *sessiontest.Server
	out, err bytes.Buffer
	dials    int
	serving  sync.WaitGroup
}

func newBench(t *testing.T, vars ...string) *bench {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "mcp-servers.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {"notes": {"url": "http://127.0.0.1:1/mcp", "headers": {"X-Key": "${KEY:-one}"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	vars = append(vars, "MCPTRACK_CONFIG="+file, "XDG_CACHE_HOME="+dir)
	b := &bench{server: sessiontest.New()}
	b.Env = Env{Out: &b.out, Err: &b.err, Version: "test",
		LookupEnv: func(name string) (string, bool) {
			for _, v := range vars {
				if value, ok := strings.CutPrefix(v, name+"="); ok {
					return value, true
				}
			}
			return "", false
		},
		Dial: func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
			b.dials++
			r, w, wait := b.server.Pipe()
			b.serving.Go(wait)
			return session.OverIO(ctx, r, w, srv, opts)
		}}
	t.Cleanup(b.serving.Wait)
	return b
}

// run runs one command line and returns its exit code and what it wrote to stdout.
func (b *bench) run(t *testing.T, args ...string) (int, string) {
	t.Helper()
	b.out.Reset()
	b.err.Reset()
	code := Main(t.Context(), &b.Env, args)
	return code, b.out.String()
}

// What is binary goes to a pipe and to a file as it is; a terminal gets a summary.
func TestBinaryContent(t *testing.T) {
	b := newBench(t)
	image := []byte("\x89PNG\r\n\x1a\n\x00\xff")
	b.server.SetResource("note:///logo.png", sessiontest.Resource{Blob: image, MimeType: "image/png"})
	if code, out := b.run(t, "read", "notes", "note:///logo.png"); code != 0 || out != string(image) {
		t.Errorf("a pipe gets %q, exit %d: %s", out, code, &b.err)
	}
	file := filepath.Join(t.TempDir(), "logo.png")
	if code, out := b.run(t, "read", "notes", "note:///logo.png", "--out", file); code != 0 || out != "" {
		t.Errorf("exit %d, stdout %q", code, out)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, image) {
		t.Errorf("the file has %q, %v", got, err)
	}
	b.OutTTY = true
	code, out := b.run(t, "read", "notes", "note:///logo.png")
	if code != 0 || !strings.HasPrefix(out, "[image/png, 10 bytes, sha256:") || strings.ContainsAny(out, "\x00\x1a") {
		t.Errorf("a terminal gets %q, exit %d", out, code)
	}
}

// --timeout says how long is too long, also beyond the server's request timeout.
func TestTimeoutExtendsRequest(t *testing.T) {
	b := newBench(t)
	var told time.Duration
	dial := b.Dial
	b.Dial = func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
		told = srv.RequestTimeout
		return dial(ctx, srv, opts)
	}
	if code, _ := b.run(t, "call", "notes", "slow", "--timeout", "10m"); code != 0 || told != 10*time.Minute {
		t.Errorf("exit %d, request timeout %s: %s", code, told, &b.err)
	}
	if code, _ := b.run(t, "call", "notes", "slow", "--timeout", "5s"); code != 0 || told != config.DefaultRequestTimeout {
		t.Errorf("exit %d, request timeout %s", code, told)
	}
}

// Arguments are completed from what was listed, and values by asking a server that
// was used before, as it was used then.
func TestCompleteArguments(t *testing.T) {
	tool := map[string]any{"name": "convert", "inputSchema": map[string]any{"type": "object", "properties": map[string]any{
		"unit": map[string]any{"type": "string", "enum": []string{"metric", "imperial"}}, "round": map[string]any{"type": "boolean"}, "amount": map[string]any{"type": "number"}}}}
	prompt := map[string]any{"name": "weather", "arguments": []any{map[string]any{"name": "city"}, map[string]any{"name": "day"}, map[string]any{"name": "evil\x1b="}}}
	serve := func(b *bench) {
		b.server.Capabilities["completions"] = map[string]any{}
		b.server.SetList(catalog.Tools, tool)
		b.server.SetList(catalog.Prompts, prompt)
		b.server.Fail(sessiontest.Fault{Method: "completion/complete", Result: map[string]any{"completion": map[string]any{
			"values": []string{"Hamburg", "Hannover", "Ha\x1b[31m"}}}})
	}
	b := newBench(t)
	serve(b)
	complete := func(b *bench, args ...string) []string {
		t.Helper()
		_, out := b.run(t, append([]string{"__complete"}, args...)...)
		var values []string
		for line := range strings.Lines(out) {
			if !strings.HasPrefix(line, ":") {
				values = append(values, strings.TrimSuffix(line, "\n"))
			}
		}
		return values
	}
	if got := complete(b, "prompt", "notes", "weather", "--arg", "city=Ha"); len(got) != 0 || b.dials != 0 {
		t.Fatalf("%q offered, %d dials, before anything was used", got, b.dials)
	}
	if code, _ := b.run(t, "list", "prompts"); code != 0 {
		t.Fatalf("list: exit %d: %s", code, &b.err)
	}
	if code, _ := b.run(t, "list", "tools"); code != 0 {
		t.Fatalf("list: exit %d: %s", code, &b.err)
	}
	dials := b.dials
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"call", "notes", "convert", "--arg", ""}, []string{"amount=", "round=", "unit="}},
		{[]string{"call", "notes", "convert", "--arg", "amount=1", "--arg", ""}, []string{"round=", "unit="}},
		{[]string{"call", "notes", "convert", "--arg", "unit="}, []string{"unit=metric", "unit=imperial"}},
		{[]string{"call", "notes", "convert", "--arg", "round="}, []string{"round=true", "round=false"}},
		{[]string{"prompt", "notes", "weather", "--arg", ""}, []string{"city=", "day="}},
		{[]string{"read", "notes", "--template", "note:///{year}/{name}", "--param", ""}, []string{"year=", "name="}},
	} {
		if got := complete(b, c.args...); !slices.Equal(got, c.want) {
			t.Errorf("%q offers %q, want %q", c.args, got, c.want)
		}
	}
	if b.dials != dials {
		t.Errorf("names were asked of the server %d times", b.dials-dials)
	}
	if got := complete(b, "prompt", "notes", "weather", "--arg", "day=1", "--arg", "city=Ha"); !slices.Equal(got, []string{"city=Hamburg", "city=Hannover"}) {
		t.Errorf("offered %q", got)
	}
	wire := b.server.Wire()
	i := slices.IndexFunc(wire, func(m sessiontest.Message) bool { return m.Method == "completion/complete" })
	var params struct {
		Ref, Argument map[string]string
		Context       struct{ Arguments map[string]string }
	}
	if i < 0 || json.Unmarshal(wire[i].Params, &params) != nil || params.Ref["name"] != "weather" || params.Argument["value"] != "Ha" || params.Context.Arguments["day"] != "1" {
		t.Errorf("asked %+v", params)
	}
	if got := complete(b, "read", "notes", "--template", "note:///{year}", "--param", "year="); !slices.Equal(got, []string{"year=Hamburg", "year=Hannover"}) {
		t.Errorf("offered %q", got)
	}

	// The config has changed since: another key, which nobody has sent there yet.
	lookup := b.LookupEnv
	b.LookupEnv = func(name string) (string, bool) {
		if name == "KEY" {
			return "two", true
		}
		return lookup(name)
	}
	dials = b.dials
	if got := complete(b, "prompt", "notes", "weather", "--arg", "city=Ha"); len(got) != 0 || b.dials != dials {
		t.Errorf("%q offered, %d dials, for a server that is another by now", got, b.dials-dials)
	}
}

func TestDescribeProgress(t *testing.T) {
	for want, p := range map[string]session.Progress{
		": 3 of 10, linking":     {Progress: 3, Total: 10, Message: "linking"},
		": 0.33":                 {Progress: 1.0 / 3},
		`: 1, a\nb\x1b[31m`:      {Progress: 1, Message: "a\nb\x1b[31m"},
		": 1234567890 of 2e+300": {Progress: 1234567890, Total: 2e300},
	} {
		if got := describe(p); got != want {
			t.Errorf("%+v is %q, want %q", p, got, want)
		}
	}
}

// brokenPipe is a stdout that nobody reads any more.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// A reader of stdout that has left is no failure.
func TestClosedPipe(t *testing.T) {
	b := newBench(t)
	b.server.SetQuietly("note:///a", "text")
	b.Out = brokenPipe{}
	for _, args := range [][]string{{"read", "notes", "note:///a"}, {"read", "notes", "note:///a", "--json"}, {"call", "notes", "t"}} {
		if code, _ := b.run(t, args...); code != 0 || b.err.Len() > 0 {
			t.Errorf("%q: exit %d: %s", args, code, &b.err)
		}
	}
}

// A file keeps its mode, a link its place; a new file has the usual mode.
func TestWriteFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, link := filepath.Join(dir, "o.txt"), filepath.Join(dir, "l.txt")
	text := []piece{{text: "new"}}
	if err := writeFile(file, text); err != nil {
		t.Fatal(err)
	}
	made, err := os.OpenFile(filepath.Join(dir, "usual"), os.O_CREATE, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	usual, _ := made.Stat()
	_ = made.Close()
	if info, err := os.Stat(file); err != nil || info.Mode() != usual.Mode() {
		t.Errorf("a new file: %v, %v", info.Mode(), err)
	}
	if err := errors.Join(os.Chmod(file, 0o640), os.Symlink("o.txt", link), writeFile(link, []piece{{text: "newer"}})); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	info, _ := os.Lstat(file)
	at, _ := os.Readlink(link)
	if err != nil || string(b) != "newer" || info.Mode() != 0o640 || at != "o.txt" {
		t.Errorf("%q %v %v, the link leads to %q", b, info.Mode(), err, at)
	}
	path := filepath.Join(dir, "nowhere", "x")
	if err := writeFile(path, text); err == nil || err.Error() != "--out: "+path+": no such file or directory" {
		t.Errorf("without a folder: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".mcptrack-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
