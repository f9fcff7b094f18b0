package commands

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// Binary content is written to pipes and files unchanged; a terminal gets a summary.
func TestBinaryContent(t *testing.T) {
	b := clitest.New(t, Main)
	image := []byte("\x89PNG\r\n\x1a\n\x00\xff")
	b.Server.SetResource("note:///logo.png", sessiontest.Resource{Blob: image, MimeType: "image/png"})
	if code, out := b.Run(t, "read", "notes", "note:///logo.png"); code != 0 || out != string(image) {
		t.Errorf("a pipe gets %q, exit %d: %s", out, code, &b.Stderr)
	}
	file := filepath.Join(t.TempDir(), "logo.png")
	if code, out := b.Run(t, "read", "notes", "note:///logo.png", "--out", file); code != 0 || out != "" {
		t.Errorf("exit %d, stdout %q", code, out)
	}
	if got, err := os.ReadFile(file); err != nil || !bytes.Equal(got, image) {
		t.Errorf("the file has %q, %v", got, err)
	}
	b.OutTTY = true
	code, out := b.Run(t, "read", "notes", "note:///logo.png")
	if code != 0 || !strings.HasPrefix(out, "[image/png, 10 bytes, sha256:") || strings.ContainsAny(out, "\x00\x1a") {
		t.Errorf("a terminal gets %q, exit %d", out, code)
	}
}

// A terminal gets the JSON of a tool indented, also if it is deeply nested; a pipe gets it unchanged.
func TestIndentedResult(t *testing.T) {
	b := clitest.New(t, Main)
	deep := strings.Repeat("[", 5000) + strings.Repeat("]", 5000)
	text := func(s string) any { return map[string]string{"type": "text", "text": s} }
	for want, result := range map[string]map[string]any{
		`{"a":[1,2.50]}` + "\n":             {"structuredContent": json.RawMessage(`{"a":[1,2.50]}`)},
		`{"a":[1,2.50]}` + "\nnot {json}\n": {"content": []any{text(`{"a":[1,2.50]}`), text("not {json}")}},
		deep + "\n":                         {"content": []any{text(deep)}},
	} {
		b.Server.Fail(sessiontest.Fault{Method: "tools/call", Result: result, Times: 2})
		b.OutTTY = false
		if code, out := b.Run(t, "call", "notes", "t"); code != 0 || out != want {
			t.Fatalf("a pipe gets %.100q, exit %d: %s", out, code, &b.Stderr)
		}
		b.OutTTY = true
		code, out := b.Run(t, "call", "notes", "t")
		if strings.HasPrefix(want, "[") {
			if len(out) > 200*len(want) {
				t.Errorf("%d bytes of %d", len(out), len(want))
			}
			continue
		}
		if indented := strings.ReplaceAll(want, `{"a":[1,2.50]}`, "{\n  \"a\": [\n    1,\n    2.50\n  ]\n}"); code != 0 || out != indented {
			t.Errorf("a terminal gets %q, exit %d: %s", out, code, &b.Stderr)
		}
	}
}

// --timeout can extend the server's request timeout.
func TestTimeoutExtendsRequest(t *testing.T) {
	b := clitest.New(t, Main)
	var requestTimeout time.Duration
	dial := b.Dial
	b.Dial = func(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
		requestTimeout = srv.RequestTimeout
		return dial(ctx, srv, opts)
	}
	if code, _ := b.Run(t, "call", "notes", "slow", "--timeout", "10m"); code != 0 || requestTimeout != 10*time.Minute {
		t.Errorf("exit %d, request timeout %s: %s", code, requestTimeout, &b.Stderr)
	}
	if code, _ := b.Run(t, "call", "notes", "slow", "--timeout", "5s"); code != 0 || requestTimeout != config.DefaultRequestTimeout {
		t.Errorf("exit %d, request timeout %s", code, requestTimeout)
	}
}

// brokenPipe is a stdout whose reader has closed it.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

// A closed stdout is not a failure.
func TestClosedPipe(t *testing.T) {
	b := clitest.New(t, Main)
	b.Server.SetQuietly("note:///a", "text")
	b.Out = brokenPipe{}
	for _, args := range [][]string{{"read", "notes", "note:///a"}, {"read", "notes", "note:///a", "--json"}, {"call", "notes", "t"}} {
		if code, _ := b.Run(t, args...); code != 0 || b.Stderr.String() != "" {
			t.Errorf("%q: exit %d: %s", args, code, &b.Stderr)
		}
	}
}

// A file keeps its mode and a link its target; a new file has the default mode.
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
	if err := writeFile(path, text); err == nil || err.Error() != "cannot write the file of --out: "+path+": no such file or directory" {
		t.Errorf("without a folder: %v", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".mcptrack-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
