//go:build linux

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
)

const historyEvents = 1_000_000

// historyBench measures the versions of one resource in a large log.
type historyBench struct{ *bench }

func (b historyBench) dir() string { return filepath.Join(b.tmp, "history") }

// prepare fills the log.
func (b historyBench) prepare(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serverLimit)
	defer cancel()
	cmd, err := b.logbench(ctx, "fill", b.dir(), historyEvents)
	if err != nil {
		return err
	}
	return cmd.Run()
}

// history measures the history of one resource of 10,000, each with 100 events in the log: as
// the call of the library, and as the whole command.
func (b historyBench) history(ctx context.Context) error {
	const scenario = "1,000,000 events"
	for range b.runs {
		cmd, err := b.logbench(ctx, "history", b.dir(), historyEvents)
		if err != nil {
			return err
		}
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("logbench history: %w", err)
		}
		var found struct {
			Open    float64
			History []float64
		}
		if err := json.Unmarshal(out, &found); err != nil {
			return fmt.Errorf("logbench history: %w", err)
		}
		b.report.add(scenario, "open, library", "ms", "mcptrack", found.Open)
		for _, took := range found.History {
			b.report.add(scenario, "history, library", "ms", "mcptrack", took)
		}
	}
	for i := range 2*b.often() + 1 {
		took, err := oneShot(ctx, []string{b.mcptrack, "history", "docs", fmt.Sprintf("file:///docs/%d.md", 501*i), "--data-dir", b.dir(), "--json"})
		if err != nil {
			return err
		}
		if i > 0 { // the first warms the caches
			b.report.add(scenario, "history, command", "ms", "mcptrack", milliseconds(took))
		}
	}
	b.report.atMost(20, scenario, "history, library")
	b.report.atMost(20, scenario, "history, command")
	return nil
}
