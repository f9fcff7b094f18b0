//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	lockServers = 20
	lockTools   = 1000 // of each

	lockScenario     = "lock 20 x 1,000"
	lockCallScenario = "lock call"
)

// lock compares verify with the commands that only list, and measures what the lock adds to a tool call
// through a gateway.
func (b *bench) lock(ctx context.Context) error {
	if err := b.verify(ctx); err != nil {
		return err
	}
	for range b.runs {
		if err := b.lockedCalls(ctx); err != nil {
			return err
		}
	}
	b.report.atMost(1.3, lockScenario, "wall / list tools")
	b.report.atMost(1.3, lockScenario, "CPU / list tools")
	b.report.atMost(1.3, lockScenario, "CPU / list tools --json")
	b.report.atMost(0.05, lockCallScenario, "added, p50")
	return nil
}

// verify runs verify and the commands that list in turns. Ratios are between neighbours in time, so that
// other work of the machine concerns both.
func (b *bench) verify(ctx context.Context) error {
	servers := map[string]any{}
	for i := range lockServers {
		servers[fmt.Sprintf("s%02d", i)] = map[string]any{"command": b.self, "args": []string{"many", strconv.Itoa(lockTools)}}
	}
	file, locked, err := b.lockedConfig(ctx, servers)
	if err != nil {
		return err
	}
	const ours = "mcptrack"
	commands := map[string][]string{
		ours:                {"verify", "--lock", locked},
		"list tools":        {"list", "tools"},
		"list tools --json": {"list", "tools", "--json"},
	}
	order := []string{"list tools", ours, "list tools --json"}
	for range 3 * b.often() {
		wall, cpu := map[string]float64{}, map[string]float64{}
		for _, name := range order {
			took, own, err := measured(ctx, append([]string{b.mcptrack, "--config", file}, commands[name]...))
			if err != nil {
				return err
			}
			wall[name], cpu[name] = milliseconds(took), milliseconds(own)
			b.report.add(lockScenario, "wall", "ms", name, wall[name])
			b.report.add(lockScenario, "CPU", "ms", name, cpu[name])
		}
		for _, other := range []string{"list tools", "list tools --json"} {
			b.report.add(lockScenario, "wall / "+other, "×", ours, wall[ours]/wall[other])
			b.report.add(lockScenario, "CPU / "+other, "×", ours, cpu[ours]/cpu[other])
		}
		slices.Reverse(order)
	}
	for range b.seldom() {
		for _, name := range order {
			mib, err := peakRSS(ctx, append([]string{b.mcptrack, "--config", file}, commands[name]...))
			if err != nil {
				return err
			}
			b.report.add(lockScenario, "peak RSS", "MiB", name, mib)
		}
	}
	return nil
}

// lockedConfig returns a config of the servers, and a lock that approves what they offer.
func (b *bench) lockedConfig(ctx context.Context, servers map[string]any) (config, lock string, err error) {
	config, err = b.writeConfig(servers)
	if err != nil {
		return "", "", err
	}
	lock = strings.TrimSuffix(config, filepath.Ext(config)) + ".lock"
	_, err = oneShot(ctx, []string{b.mcptrack, "--config", config, "lock", "--lock", lock})
	return config, lock, err
}

// lockedCalls calls a tool in turns through a gateway without a lock and through one that enforces it.
func (b *bench) lockedCalls(ctx context.Context) error {
	servers := map[string]any{"many": map[string]any{"command": b.self, "args": []string{"many", "10"}, "trackTools": true}}
	_, lock, err := b.lockedConfig(ctx, servers)
	if err != nil {
		return err
	}
	plain, plainURL, err := b.startGateway(ctx, servers)
	if err != nil {
		return err
	}
	locked, lockedURL, err := b.startGateway(ctx, servers, "--lock", lock)
	if err != nil {
		return errors.Join(err, plain.close())
	}
	defer func() {
		plain.end() // first, as close waits until no child is left
		_ = locked.close()
	}()
	clients := []*httpClient{{url: plainURL}, {url: lockedURL}}
	took := [2][]float64{}
	for _, c := range clients {
		if err := c.initialize(ctx); err != nil {
			return err
		}
	}
	var added []float64
	params := map[string]any{"name": "t000", "arguments": map[string]any{"text": "hello"}}
	for n := range manyCalls + 200 {
		var now [2]float64
		for turn := range clients {
			i := (turn + n) % 2
			began := time.Now()
			if _, err := clients[i].ask(ctx, "tools/call", params); err != nil {
				return err
			}
			now[i] = milliseconds(time.Since(began))
		}
		if n < 200 { // connections and caches are warm then
			continue
		}
		for i := range took {
			took[i] = append(took[i], now[i])
		}
		added = append(added, now[1]-now[0])
	}
	b.report.percentiles(lockCallScenario, "", "ms", "without lock", took[0])
	b.report.percentiles(lockCallScenario, "", "ms", "mcptrack", took[1])
	b.report.add(lockCallScenario, "added, p50", "ms", "mcptrack", median(added))
	return enforces(ctx, clients[1])
}

// enforces makes the server add a tool, and returns an error unless the gateway then refuses to call it
// because of the lock.
func enforces(ctx context.Context, c *httpClient) error {
	if _, err := c.ask(ctx, "tools/call", map[string]any{"name": "t000", "arguments": map[string]any{"change": true}}); err != nil {
		return err
	}
	var err error
	for deadline := time.Now().Add(serverLimit); time.Now().Before(deadline) && ctx.Err() == nil; time.Sleep(10 * time.Millisecond) {
		if _, err = c.ask(ctx, "tools/call", map[string]any{"name": "t010"}); err == nil {
			return errors.New("the gateway called a tool that is not in the lock")
		}
		if strings.Contains(err.Error(), "approved") {
			return nil
		}
	}
	return fmt.Errorf("the gateway did not enforce the lock: %w", err)
}
