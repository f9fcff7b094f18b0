//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"
)

const journalEvents = 100_000

// journalBench measures the durable log.
type journalBench struct{ *bench }

// journal measures the durable log: storing and reading by the library, in the test
// program of its package; replay, and starting on it, by the program that users have.
// A log whose owner was killed is started on first, and one that was closed then.
func (b journalBench) journal(ctx context.Context) error {
	if b.journalTest == "" {
		return errors.New("no -journal")
	}
	for range b.runs {
		dir := b.dataDir()
		if err := b.fill(ctx, dir); err != nil {
			return err
		}
		for _, scenario := range []string{"100,000 events, killed", "100,000 events"} {
			s, err := b.serve(ctx, dir, load{resources: 1})
			if err != nil {
				return err
			}
			ready := time.Since(s.began)
			if err := s.close(); err != nil {
				return err
			}
			b.report.add(scenario, "serve-sse ready", "ms", "mcptrack", milliseconds(ready))
		}
		took, n, err := b.replay(ctx, dir)
		if err != nil {
			return err
		}
		b.report.add("100,000 events", "replay", "/s", "mcptrack", float64(n)/took.Seconds())
		if err := os.RemoveAll(dir); err != nil {
			return err
		}
	}
	b.report.atLeast(50_000, "journal, always", "pipelined appends")
	b.report.atLeast(200_000, "journal, always", "read")
	b.report.atLeast(100_000, "100,000 events", "replay") // with the start of the program, and output
	b.report.atMost(1000, "100,000 events", "serve-sse ready")
	b.report.atMost(1000, "100,000 events, killed", "serve-sse ready")
	return nil
}

// fill measures storing and reading, and kills the process.
func (b journalBench) fill(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeout(ctx, oneShotLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, b.journalTest)
	cmd.Env = append(os.Environ(), "MCPTRACK_JOURNAL_CHILD=fill", "MCPTRACK_JOURNAL_DIR="+dir,
		"MCPTRACK_JOURNAL_EVENTS="+strconv.Itoa(journalEvents))
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe() // it lives until that ends
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	var report struct {
		Events       int
		Stored, Read float64 // seconds
	}
	failed := json.NewDecoder(out).Decode(&report)
	if err := cmd.Process.Kill(); err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // killed
	if failed != nil || report.Events != journalEvents {
		return fmt.Errorf("fill a journal: %d events, %w", report.Events, failed)
	}
	b.report.add("journal, always", "pipelined appends", "/s", "mcptrack", journalEvents/report.Stored)
	b.report.add("journal, always", "read", "/s", "mcptrack", journalEvents/report.Read)
	return nil
}

// replay prints the log and counts its lines.
func (b journalBench) replay(ctx context.Context, dir string) (took time.Duration, lines int, err error) {
	began := time.Now()
	r, err := start(ctx, oneShotLimit, []string{b.mcptrack, "replay", "--data-dir", dir})
	if err != nil {
		return 0, 0, err
	}
	buf := make([]byte, 256<<10)
	for err == nil {
		var n int
		n, err = r.out.Read(buf)
		lines += bytes.Count(buf[:n], []byte{'\n'})
	}
	took = time.Since(began)
	if err := r.close(); err != nil {
		return 0, 0, err
	}
	if err != io.EOF || lines < journalEvents {
		return 0, 0, fmt.Errorf("replay: %d lines, %w", lines, err)
	}
	return took, lines, nil
}
