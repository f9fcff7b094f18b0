package attach

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/daemon/ipc"
)

func TestProgram(t *testing.T) {
	t.Parallel()
	name := "mcptrack"
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	dir := t.TempDir()
	self := filepath.Join(dir, "mcptrack-attach")
	nowhere := func(string) (string, error) { return "", errors.New("not found") }
	inPath := func(found string) (string, error) { return "/bin/" + found, nil }
	if got := Program(self, nowhere); got != "" {
		t.Errorf("there is none: %s", got)
	}
	if got := Program(self, inPath); got != "/bin/"+name {
		t.Errorf("in PATH: %s", got)
	}
	if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := Program(self, nowhere); got != "" {
		t.Errorf("a folder: %s", got)
	}
	if err := os.Remove(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := Program(self, inPath); got != filepath.Join(dir, name) {
		t.Errorf("beside the program: %s", got)
	}
}

// A client has the same name in all its connections, and no other client has it.
func TestHello(t *testing.T) {
	t.Parallel()
	opts := Options{Server: "a", Config: "c.json", LookupEnv: func(string) (string, bool) { return "", false }}
	first, err := opts.hello()
	if err != nil {
		t.Fatal(err)
	}
	second, err := opts.hello()
	if err != nil {
		t.Fatal(err)
	}
	if first.Client == second.Client || len(first.Client) < 16 {
		t.Errorf("%q, %q", first.Client, second.Client)
	}
	if first.Purpose != ipc.Attach || first.Server != "a" || first.Config != filepath.Join(first.Folder, "c.json") {
		t.Errorf("%+v", first)
	}
	if got := opts.Gateway(); !slices.Equal(got, strings.Fields("--stdio --all --instead --server a")) {
		t.Errorf("%q", got)
	}
}

// The user reads each message once.
func TestLost(t *testing.T) {
	t.Parallel()
	var told []string
	a := &attachment{opts: Options{Tell: func(text string) { told = append(told, text) }}}
	for _, err := range []error{errors.New("EOF"), errors.New("no"), errors.New("no"), errors.New("other")} {
		a.lost(err)
	}
	want := []string{"the connection to the daemon was lost", "cannot connect to the daemon: no", "cannot connect to the daemon: other"}
	if !slices.Equal(told, want) {
		t.Errorf("%q", told)
	}
}
