//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

const (
	driftStarts   = 20 // of each server, after it was locked
	driftTogether = 8  // servers that are started at a time
	driftLimit    = 5 * time.Minute

	driftScenario = "drift 20 starts"
)

// moreServers are the programs of scripts/bench/drift. They start without a network. Some refuse to start
// without credentials, which they use only for calls, so any text will do.
func moreServers() []published {
	return []published{
		{name: "airbnb", program: "mcp-server-airbnb"},
		{name: "airtable", program: "airtable-mcp-server", env: []string{"AIRTABLE_API_KEY"}},
		{name: "argocd", program: "argocd-mcp", args: []string{"stdio"}, env: []string{"ARGOCD_BASE_URL", "ARGOCD_API_TOKEN"}},
		{name: "boilerplate", program: "mcp-server"},
		{name: "brave", program: "brave-search-mcp-server", env: []string{"BRAVE_API_KEY"}},
		{name: "brave-reference", program: "mcp-server-brave-search", env: []string{"BRAVE_API_KEY"}},
		{name: "chart", program: "mcp-server-chart"},
		{name: "code-runner", program: "mcp-server-code-runner"},
		{name: "drawio", program: "drawio-mcp"},
		{name: "exa", program: "exa-mcp-server", env: []string{"EXA_API_KEY"}},
		{name: "github", program: "mcp-server-github"},
		{name: "gitlab", program: "mcp-server-gitlab", env: []string{"GITLAB_PERSONAL_ACCESS_TOKEN"}},
		{name: "hello", program: "mcp-hello-world"},
		{name: "maps", program: "mcp-server-google-maps", env: []string{"GOOGLE_MAPS_API_KEY"}},
		{name: "notion", program: "notion-mcp-server", env: []string{"NOTION_TOKEN"}},
		{name: "perplexity", program: "perplexity-mcp", env: []string{"PERPLEXITY_API_KEY"}},
		{name: "primeng", program: "primeng-mcp"},
		{name: "reddit", program: "reddit-mcp-buddy"},
		{name: "searxng", program: "mcp-searxng", env: []string{"SEARXNG_URL"}},
		{name: "slack", program: "mcp-server-slack", env: []string{"SLACK_BOT_TOKEN", "SLACK_TEAM_ID"}},
		{name: "tavily", program: "tavily-mcp", env: []string{"TAVILY_API_KEY"}},
	}
}

// prepareDrift installs all published servers.
func (b *bench) prepareDrift(ctx context.Context) error {
	return errors.Join(b.prepareShare(ctx), install(ctx, filepath.Join(filepath.Dir(b.published), "drift"), b.driftServers()))
}

// driftServers is the folder where the programs of scripts/bench/drift are installed.
func (b *bench) driftServers() string { return filepath.Join(filepath.Dir(b.servers), "drift") }

// drift locks published servers in all variants, starts them again and again, and verifies their lists
// each time: in turns as a client that prefers the modern era, and as a legacy client. It counts the
// changes that are reported. Each of them is a false alarm, or an instability of the server.
func (b *bench) drift(ctx context.Context) error {
	place, err := b.newPlace("")
	if err != nil {
		return err
	}
	// Some need a newer Node than the system has.
	place.env = append(place.env, "PATH="+filepath.Dir(b.node)+string(os.PathListSeparator)+os.Getenv("PATH"))
	entries := map[string]any{"go-sdk": map[string]any{"command": filepath.Join(filepath.Dir(b.self), "everything-server")}}
	for folder, servers := range map[string][]published{b.servers: publishedServers(place.folder), b.driftServers(): moreServers()} {
		for _, s := range servers {
			env := map[string]string{}
			for _, name := range s.env {
				env[name] = "none"
			}
			entries[s.name] = map[string]any{"command": programOf(folder, s), "args": s.args, "env": env}
		}
	}
	eras := make([]string, 2) // configs
	for i, protocol := range []string{"auto", "legacy"} {
		for _, entry := range entries {
			entry.(map[string]any)["protocol"] = protocol
			entry.(map[string]any)["connectTimeout"] = "1m" // for a busy machine
		}
		if eras[i], err = b.writeConfig(entries); err != nil {
			return err
		}
	}
	var names []string
	for name := range entries {
		names = append(names, name)
	}
	slices.Sort(names)
	locked := filepath.Join(place.folder, "bench.lock")
	drifts, missed := map[string]int{}, map[string]int{}
	for some := range slices.Chunk(names, driftTogether) {
		if _, err := b.driftCommand(ctx, place, append([]string{"--config", eras[0], "lock", "--lock", locked, "--all-variants"}, some...), 0); err != nil {
			return err
		}
		for n := range driftStarts {
			out, err := b.driftCommand(ctx, place, append([]string{"--config", eras[n%2], "verify", "--lock", locked, "-o", "json"}, some...), 7, 4)
			if err != nil {
				return err
			}
			var found struct {
				Items       []struct{ ServerID, Item, Class string }
				Unreachable []string
			}
			if err := json.Unmarshal(out, &found); err != nil {
				return err
			}
			for _, d := range found.Items {
				drifts[fmt.Sprintf("%s %s: %s", d.ServerID, d.Item, d.Class)]++
			}
			for _, name := range found.Unreachable {
				missed[name]++
			}
		}
	}
	r, total := b.report, [2]int{}
	for i, counts := range []map[string]int{drifts, missed} {
		for what, n := range counts {
			total[i] += n
			r.Notes = append(r.Notes, fmt.Sprintf("%s (%s in %d of %d starts)", what, []string{"reported", "unreachable"}[i], n, driftStarts))
		}
	}
	slices.Sort(r.Notes)
	r.add(driftScenario, "servers", "", "mcptrack", float64(len(names)))
	r.add(driftScenario, "lists compared", "", "mcptrack", float64(len(names)*driftStarts-total[1]))
	r.add(driftScenario, "changes reported", "", "mcptrack", float64(total[0]))
	r.add(driftScenario, "unreachable", "", "mcptrack", float64(total[1]))
	r.atLeast(31, driftScenario, "servers")
	r.atMost(0, driftScenario, "changes reported")
	r.atMost(0, driftScenario, "unreachable")
	return nil
}

// driftCommand runs mcptrack and returns its output. Other exit codes than 0 and those in allowed are an
// error.
func (b *bench) driftCommand(ctx context.Context, p place, args []string, allowed ...int) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, driftLimit)
	defer cancel()
	cmd := p.command(ctx, append([]string{b.mcptrack}, args...))
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && slices.Contains(allowed, exit.ExitCode()) {
		err = nil
	}
	if err != nil {
		err = fmt.Errorf("mcptrack %s: %w: %s", args[2], err, bytes.TrimSpace(errs.Bytes()))
	}
	return out, err
}
