//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

// isolation measures what a server that floods costs its neighbour: the time from
// an update of a calm server to its line, alone and during 50,000 notifications a
// second of another server, and the memory that is resident after the flood.
func (b *bench) isolation(ctx context.Context) error {
	const count, rate, flood = 900, 300, 50_000
	entry := func(l load) map[string]any {
		return map[string]any{
			"command": b.self, "args": b.blastArgv(l)[1:], "read": "none", "trackResources": true, "trackTools": false, "trackPrompts": false,
			"onConnect": []any{map[string]any{"tool": "blast", "arguments": map[string]any{"count": l.count, "rate": l.rate}}},
		}
	}
	times := filepath.Join(b.tmp, "times")
	for range b.runs {
		for scenario, loud := range map[string]bool{"calm alone": false, "calm beside a flood": true} {
			servers := map[string]any{"calm": entry(load{resources: count, count: count, rate: rate, times: times})}
			if loud {
				servers["loud"] = entry(load{resources: 100, count: 5 * flood, rate: flood, times: filepath.Join(b.tmp, "loud")})
			}
			file, err := b.writeConfig(servers)
			if err != nil {
				return err
			}
			p, err := start(ctx, streamLimit, []string{b.mcptrack, "--config", file, "watch", "--json"})
			if err != nil {
				return err
			}
			arrived, err := p.arrivals(count, []byte(`"serverId":"calm"`))
			mib := 0.0
			if err == nil {
				mib, err = memory(p.cmd.Process.Pid, "VmRSS")
			}
			if err := errors.Join(err, p.close()); err != nil {
				return err
			}
			sent, err := readTimes(times)
			if err != nil {
				return err
			}
			delays := make([]float64, 0, count)
			for i, at := range arrived {
				if at != 0 && i < len(sent) {
					delays = append(delays, float64(at-sent[i])/1e3)
				}
			}
			if len(delays) != count {
				return fmt.Errorf("%s: %d of %d updates came", scenario, len(delays), count)
			}
			slices.Sort(delays)
			b.report.add(scenario, "p50", "µs", "mcptrack", delays[count/2])
			b.report.add(scenario, "p99", "µs", "mcptrack", delays[count*99/100])
			b.report.add(scenario, "RSS after", "MiB", "mcptrack", mib)
		}
	}
	b.report.times(1.5, "calm beside a flood", "calm alone", "p99")
	b.report.times(1.5, "calm beside a flood", "calm alone", "RSS after")
	return nil
}

// from reports whether the line is of the server; all are when it is not named.
func from(line, server []byte) bool { return len(server) == 0 || bytes.Contains(line, server) }
