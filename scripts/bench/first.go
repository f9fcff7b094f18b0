//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// A firstCommand is one that new users run in their first minutes.
type firstCommand struct {
	name string
	args []string
	text string // what the first useful line contains
}

// first measures the time from the start of the process to the first line that tells the user
// something, for ten commands that new users run first.
func (b *bench) first(ctx context.Context) error {
	file, err := b.writeConfig(map[string]any{"demo": map[string]any{"command": b.mcptrack,
		"args": []string{"demo-server"}, "trackResources": true}})
	if err != nil {
		return err
	}
	for range b.often() {
		for _, c := range []firstCommand{
			{"version", []string{"version"}, "mcptrack"},
			{"--help", []string{"--help"}, "Usage:"},
			{"validate", []string{"validate", file}, "ok"},
			{"list --demo", []string{"list", "--demo"}, "demo"},
			{"list", []string{"--config", file, "list"}, "demo"},
			{"list tools", []string{"--config", file, "list", "tools"}, "set_interval"},
			{"read", []string{"--config", file, "read", "demo", "vault://note/guide.md"}, "#"},
			{"watch --demo", []string{"watch", "--demo"}, "updated"},
			{"watch --json", []string{"--config", file, "watch", "--json"}, `"Ready"`},
		} {
			p, err := start(ctx, streamLimit, append([]string{b.mcptrack}, c.args...), true)
			if err != nil {
				return err
			}
			took, err := p.await(c.text, 1)
			if err := errors.Join(err, p.close()); err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			b.report.add("first "+c.name, "wall", "ms", "mcptrack", milliseconds(took))
		}
		if err := b.firstPage(ctx); err != nil {
			return fmt.Errorf("serve-sse --demo: %w", err)
		}
	}
	// A program that prints what it knows, and one that starts a server first.
	b.report.atMost(50, "first --help", "wall")
	b.report.atMost(50, "first validate", "wall")
	b.report.atMost(300, "first list", "wall")
	b.report.atMost(3000, "first watch --demo", "wall") // the demo changes after two seconds
	b.report.atMost(300, "first serve-sse --demo", "wall")
	return nil
}

// firstPage measures the time to the first answer of the dashboard.
func (b *bench) firstPage(ctx context.Context) (err error) {
	r, url, err := startServer(ctx, b.mcptrack, "serve-sse", "--demo", "--addr", "127.0.0.1:0", "--data-dir", b.dataDir())
	if err != nil {
		return err
	}
	s := &served{running: r}
	defer func() { err = errors.Join(err, s.close()) }()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/", nil)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return errors.New(res.Status)
	}
	b.report.add("first serve-sse --demo", "wall", "ms", "mcptrack", milliseconds(time.Since(r.began)))
	return nil
}
