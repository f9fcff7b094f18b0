package gateway_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/commands"
	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/commands/internal/cli/clitest"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/lock/observe"
	"github.com/mcptrack/mcptrack/core/session"
)

// approveAll writes what the server of the config offers now into a lock.
func approveAll(t *testing.T, b *clitest.Bench, path string) {
	t.Helper()
	cfg, problems := config.Load(b.Getenv("MCPTRACK_CONFIG"), config.Options{})
	if cfg == nil {
		t.Fatal(problems)
	}
	if err := lock.Update(t.Context(), path, func(l *lock.Lock) error {
		r := observe.Servers(t.Context(), cfg.Servers, observe.Options{Probe: session.ProbeOptions{Dial: b.Dial}, Machine: b.Machine(), Hashing: func() lock.Hashing { return l.Hashing }})[0]
		l.Servers["notes"] = lock.NewServer(r.Offered)
		return r.Err
	}); err != nil {
		t.Fatal(err)
	}
}

// The gateway enforces the lock beside the config, or the one that --lock names, by the config and as
// --enforce says.
func TestGatewayLock(t *testing.T) {
	b := clitest.New(t, commands.Main)
	file := b.Getenv("MCPTRACK_CONFIG")
	set := func(description string) {
		b.Server.SetList(catalog.Tools,
			map[string]any{"name": "dig", "description": description, "inputSchema": map[string]any{"type": "object"}},
			map[string]any{"name": "rake", "inputSchema": map[string]any{"type": "object"}})
	}
	// served runs the gateway for one client, which lists the tools and calls dig. It returns the
	// descriptions of dig, and the end of the error.
	served := func(more ...string) (text, failed string) {
		t.Helper()
		b.In = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"dig"}}
`)
		code, out := b.Run(t, append([]string{"gateway", "--all", "--stdio"}, more...)...)
		if code != cli.ExitOK || !strings.Contains(out, `"tools":[`) {
			t.Fatalf("%q: exit %d: %s%s", more, code, out, b.Stderr.String())
		}
		for _, known := range []string{"good", "EVIL"} {
			if strings.Contains(out, `"description":"`+known+`"`) {
				text += known
			}
		}
		if _, after, found := strings.Cut(out, "run mcptrack "); found {
			failed, _, _ = strings.Cut(after, `"`)
		}
		return text, failed
	}
	expect := func(text, failed string, more ...string) {
		t.Helper()
		if gotText, gotFailed := served(more...); gotText != text || gotFailed != failed {
			t.Errorf("%q: served %q, refused %q; want %q, %q\n%s", more, gotText, gotFailed, text, failed, b.Stderr.String())
		}
	}
	beside, elsewhere := filepath.Join(filepath.Dir(file), guard.FileName), filepath.Join(t.TempDir(), "the other.lock")
	config := "review notes --config " + file // of MCPTRACK_CONFIG, which another shell may not have
	set("good")
	approveAll(t, b, elsewhere)
	set("EVIL")
	expect("EVIL", "") // there is no lock
	other := "review notes --lock '" + elsewhere + "' --config " + file
	expect("good", other, "--lock", elsewhere)
	if log := b.Stderr.String(); !strings.Contains(log, "item=dig") || strings.Contains(log, "EVIL") || !strings.Contains(log, "run mcptrack review notes") {
		t.Error(log)
	}
	expect("EVIL", "", "--lock", elsewhere, "--enforce", "audit")
	if log := b.Stderr.String(); !strings.Contains(log, "item=dig") {
		t.Error(log)
	}
	expect("", other, "--lock", elsewhere, "--enforce", "block")
	if err := os.Rename(elsewhere, beside); err != nil {
		t.Fatal(err)
	}
	expect("good", config)
	expect("good", config, "--enforce", "hold")
	entry, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	weaker := strings.Replace(string(entry), `{"url"`, `{"lock": {"wording": "allow"}, "url"`, 1)
	if err := os.WriteFile(file, []byte(weaker), 0o600); err != nil {
		t.Fatal(err)
	}
	expect("good", config) // only the config allows it
	if err := lock.Update(t.Context(), beside, func(l *lock.Lock) error {
		l.Servers["notes"].Policy = lock.Policy{"L002": lock.Allow}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	expect("EVIL", "")
	for _, args := range [][]string{{"--lock", elsewhere}, {"--lock", filepath.Join(t.TempDir(), "none"), "--enforce", "audit"}} {
		if code, _ := b.Run(t, append([]string{"gateway", "--stdio"}, args...)...); code != cli.ExitConfig || !strings.Contains(b.Stderr.String(), "there is no lock") {
			t.Errorf("%q: exit %d: %s", args, code, b.Stderr.String())
		}
	}
	if err := os.Remove(beside); err != nil {
		t.Fatal(err)
	}
	if code, _ := b.Run(t, "gateway", "--stdio", "--enforce", "hold"); code != cli.ExitConfig {
		t.Errorf("--enforce without a lock: exit %d", code)
	}
	if code, _ := b.Run(t, "gateway", "--stdio", "--enforce", "allow"); code != cli.ExitUsage || !strings.Contains(b.Stderr.String(), "audit") {
		t.Errorf("exit %d: %s", code, b.Stderr.String())
	}
}

// The gateway publishes what differs from the lock once, also after a restart, and when it was approved
// or taken back. Clients of MCP Events never receive the name of an added item that nobody approved.
func TestGatewayLockDrift(t *testing.T) {
	b := clitest.New(t, commands.Main)
	file, dir := b.Getenv("MCPTRACK_CONFIG"), t.TempDir()
	path := filepath.Join(filepath.Dir(file), guard.FileName)
	offer := func(description string, added ...any) {
		b.Server.SetList(catalog.Tools, append(added, map[string]any{"name": "dig", "description": description, "inputSchema": map[string]any{"type": "object"}})...)
	}
	// serve runs the gateway for one client, which polls for events after a cursor.
	serve := func(cursor string) string {
		t.Helper()
		b.In = strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
{"jsonrpc":"2.0","id":3,"method":"events/poll","params":{"subscriptions":[{"id":"s","name":"lock.drift","cursor":"` + cursor + `"}],"name":"lock.drift","cursor":"` + cursor + `"}}
`)
		code, out := b.Run(t, "gateway", "--all", "--stdio", "--events", "--data-dir", dir)
		if code != cli.ExitOK || !strings.Contains(out, `"tools":[`) {
			t.Fatalf("exit %d: %s%s", code, out, b.Stderr.String())
		}
		return out
	}
	first := "" // id of the first event
	stored := func(want ...string) {
		t.Helper()
		var got []string
		_, out := b.Run(t, "replay", "--data-dir", dir, "--type", "lock.drift", "--json")
		for line := range strings.Lines(out) {
			var e struct{ ID, State, Section, Item string }
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if e.Section == "tools" {
				got = append(got, e.State+" "+e.Item)
			}
			first = cmp.Or(first, e.ID)
		}
		if !slices.Equal(got, want) || strings.Contains(out, "EVIL") {
			t.Fatalf("%q, want %q: %s", got, want, out)
		}
	}
	offer("good")
	approveAll(t, b, path)
	offer("EVIL")
	serve("")
	stored("changed tool/dig")
	offer("EVIL", map[string]any{"name": "sow_UNSEEN", "inputSchema": map[string]any{"type": "object"}})
	serve("")
	stored("changed tool/dig", "changed tool/sow_UNSEEN")
	offer("EVIL")
	approveAll(t, b, path)
	serve("")
	stored("changed tool/dig", "changed tool/sow_UNSEEN", "approved tool/dig", "resolved tool/sow_UNSEEN")
	out := serve(first)
	_, events, found := strings.Cut(out, `"events":[`)
	if !found || strings.Count(events, `"eventId"`) != 3 || strings.Count(events, `"name":"dig"`) != 1 || strings.Contains(out, "UNSEEN") {
		t.Errorf("polled: %s", out)
	}
}

// The error for the flags that the lock replaced says so.
func TestRemovedPins(t *testing.T) {
	b := clitest.New(t, commands.Main)
	for _, flag := range []string{"--pin", "--repin=notes"} {
		if code, _ := b.Run(t, "gateway", flag); code != cli.ExitUsage || !strings.Contains(b.Stderr.String(), "mcptrack lock") {
			t.Errorf("%s: exit %d: %s", flag, code, b.Stderr.String())
		}
	}
}

// An API that the lock does not have is refused when the gateway starts, with what to do.
func TestGatewayLockedCatalogURL(t *testing.T) {
	b := clitest.New(t, commands.Main)
	beside := filepath.Join(filepath.Dir(b.Getenv("MCPTRACK_CONFIG")), guard.FileName)
	if err := lock.Update(t.Context(), beside, func(l *lock.Lock) error { return nil }); err != nil {
		t.Fatal(err)
	}
	b.In = strings.NewReader("")
	args := []string{"gateway", "--all", "--stdio", "--catalog-url", "http://127.0.0.1:1"}
	code, _ := b.Run(t, args...)
	text := b.Stderr.String()
	if code != cli.ExitUsage || !strings.Contains(text, "the lock does not have the API of --catalog-url") || !strings.Contains(text, `"catalog": {"type": "catalog", "url": "URL"}; then run mcptrack lock catalog`) {
		t.Errorf("exit %d: %s", code, text)
	}
	if code, _ := b.Run(t, append(args, "--enforce", "audit")...); code != cli.ExitOK {
		t.Errorf("--enforce audit: exit %d: %s", code, b.Stderr.String())
	}
}

// The tools for changes name the resources that changed, but show no text that resources/read refuses:
// neither of a resource whose definition is held, nor of contents that are in the lock.
func TestGatewayLockedChanges(t *testing.T) {
	for name, pinned := range map[string]bool{"held definition": false, "pinned content": true} {
		t.Run(name, func(t *testing.T) {
			b := clitest.New(t, commands.Main)
			file := b.Getenv("MCPTRACK_CONFIG")
			set := func(description string) {
				b.Server.SetList(catalog.Resources, map[string]any{"uri": "doc://a", "name": "a", "description": description}, map[string]any{"uri": "doc://c", "name": "c"})
			}
			set("good")
			b.Server.SetQuietly("doc://a", "good")
			b.Server.SetQuietly("doc://c", "good")
			cfg, problems := config.Load(file, config.Options{})
			if cfg == nil {
				t.Fatal(problems)
			}
			if err := lock.Update(t.Context(), filepath.Join(filepath.Dir(file), guard.FileName), func(l *lock.Lock) error {
				r := observe.Servers(t.Context(), cfg.Servers, observe.Options{Probe: session.ProbeOptions{Dial: b.Dial}, Machine: b.Machine(), Hashing: func() lock.Hashing { return l.Hashing }})[0]
				l.Servers["notes"] = lock.NewServer(r.Offered)
				if pinned {
					l.Servers["notes"].Items[lock.SectionContents] = []lock.Item{l.Hashing.Item(lock.SectionContents, lock.Content("doc://a", "text/plain", []byte("good"), true))}
				}
				return r.Err
			}); err != nil {
				t.Fatal(err)
			}
			if !pinned {
				set("EVIL")
			}
			in, requests := io.Pipe()
			b.In = in
			ended := make(chan int, 1)
			go func() { code, _ := b.Run(t, "gateway", "--all", "--stdio", "--change-tools"); ended <- code }()
			fmt.Fprintln(requests, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			shown := func() bool {
				out := b.Stdout.String()
				return strings.Count(out, `"uri":"doc://a"`) >= 5 && strings.Contains(out, `"uri":"doc://c"`) && (pinned || strings.Contains(out, "+SHOWN"))
			}
			limit := time.Now().Add(time.Minute)
			for n := 1; !shown() && time.Now().Before(limit); n++ { // only changes after the first read have diffs
				cursor := ""
				if at := strings.LastIndex(b.Stdout.String(), `"cursor":"`); at >= 0 {
					cursor, _, _ = strings.Cut(b.Stdout.String()[at:], ",")
				}
				b.Server.Set("doc://a", fmt.Sprint("EVIL ", n))
				b.Server.Set("doc://c", fmt.Sprint("SHOWN ", n))
				fmt.Fprintf(requests, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"changes_since","arguments":{%s}}}`+"\n", n, cursor)
				time.Sleep(50 * time.Millisecond)
			}
			_ = requests.Close()
			if code := <-ended; code != cli.ExitOK || !shown() || strings.Contains(b.Stdout.String(), "EVIL") {
				t.Errorf("exit %d: %s%s", code, b.Stdout.String(), b.Stderr.String())
			}
		})
	}
}
