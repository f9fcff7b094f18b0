package gateway

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/config"
)

// The key for task ids is stored in the data directory: it is the same after a restart, and for all gateways
// that share the directory. A gateway that cannot store a key works without it.
func TestGatewayKey(t *testing.T) {
	t.Parallel()
	state := t.TempDir()
	env := &cli.Env{LookupEnv: func(name string) (string, bool) { return state, name == "XDG_STATE_HOME" }}
	var g cli.Globals
	key := func(env *cli.Env, o options) string {
		return string(o.taskKey(env, &g, slog.New(slog.DiscardHandler)))
	}
	first := key(env, options{})
	if first == "" || key(env, options{}) != first {
		t.Error("the key does not stay")
	}
	file := filepath.Join(state, "mcptrack", "gateway", keyFile)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	var other options
	other.events.Dir = filepath.Join(t.TempDir(), "data")
	if own := key(env, other); own == "" || own == first || key(env, other) != own {
		t.Error("the data directory makes no difference")
	}
	if _, err := os.Stat(filepath.Join(other.events.Dir, keyFile)); err != nil {
		t.Error(err)
	}
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, home := range []string{"", blocked} {
		nowhere := &cli.Env{LookupEnv: func(name string) (string, bool) { return home, name == "XDG_STATE_HOME" }}
		if key(nowhere, options{}) != "" {
			t.Errorf("a key in %q", home)
		}
	}
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	if key(env, options{}) != "" {
		t.Error("a key that others can read is used")
	}
	cmd := &cobra.Command{}
	g.AddDemo(cmd)
	if err := cmd.ParseFlags([]string{"--demo"}); err != nil || key(env, options{}) != "" {
		t.Error("a demo uses the key", err)
	}
}

// TestInsteadOfTheDaemon: a gateway that replaces the daemon leaves out entries that run attach, which
// would start it again.
func TestInsteadOfTheDaemon(t *testing.T) {
	cfg := &config.Config{Servers: []config.Server{config.Stdio("a", "mcptrack-attach", "a"), config.Stdio("b", "mcptrack", "attach", "b"), config.Stdio("c", "server")}}
	for instead, want := range map[bool]string{false: "a b c", true: "c"} {
		o := options{instead: instead}
		o.AllServers = true
		var ids []string
		for _, srv := range o.exported(cfg).Servers {
			ids = append(ids, srv.ID)
		}
		if got := strings.Join(ids, " "); got != want {
			t.Errorf("instead=%t: %s; want %s", instead, got, want)
		}
	}
}
