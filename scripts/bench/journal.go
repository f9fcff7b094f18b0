//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"
)

const journalEvents = 100_000

// journal measures the durable log: storing, reading and resuming by the library, in
// scripts/logbench; replay, starting on the log, and resuming over HTTP by the program that
// users have. A log whose owner was killed is started on first, and one that was closed then.
func (b *bench) journal(ctx context.Context) error {
	for range b.runs {
		if err := b.journalOnce(ctx, b.dataDir()); err != nil {
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

func (b *bench) journalOnce(ctx context.Context, dir string) error {
	middle, err := b.fill(ctx, dir)
	if err != nil {
		return err
	}
	for _, scenario := range []string{"100,000 events, killed", "100,000 events"} {
		s, err := b.serve(ctx, dir, load{resources: 1})
		if err != nil {
			return err
		}
		ready := time.Since(s.began)
		if err := errors.Join(b.resume(ctx, scenario, s.addr, middle), s.close()); err != nil {
			return err
		}
		b.report.add(scenario, "serve-sse ready", "ms", "mcptrack", milliseconds(ready))
	}
	took, n, err := b.replay(ctx, dir)
	if err != nil {
		return err
	}
	b.report.add("100,000 events", "replay", "/s", "mcptrack", float64(n)/took.Seconds())
	return os.RemoveAll(dir)
}

// fill makes the log, measures storing, reading and resuming, and kills the process that has
// the log open. It returns the id of the event after which half of the events follow.
func (b *bench) fill(ctx context.Context, dir string) (middle string, err error) {
	ctx, cancel := context.WithTimeout(ctx, oneShotLimit)
	defer cancel()
	cmd, err := b.logbench(ctx, "measure", dir, journalEvents)
	if err != nil {
		return "", err
	}
	in, err := cmd.StdinPipe() // it lives until that ends
	if err != nil {
		return "", err
	}
	defer in.Close()
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	var found struct {
		Stored, Read   float64   // seconds
		Append, Resume []float64 // ms
		Middle         string
	}
	failed := json.NewDecoder(out).Decode(&found)
	if err := cmd.Process.Kill(); err != nil && failed == nil {
		return "", err
	}
	_, _ = io.Copy(io.Discard, out)
	_ = cmd.Wait() // killed
	if failed != nil {
		return "", fmt.Errorf("fill a log: %w", failed)
	}
	const scenario = "journal, always"
	b.report.add(scenario, "pipelined appends", "/s", "mcptrack", journalEvents/found.Stored)
	b.report.add(scenario, "read", "/s", "mcptrack", journalEvents/found.Read)
	for i := range found.Append {
		b.report.add(scenario, "append, one after another", "ms", "mcptrack", found.Append[i])
	}
	for i := range found.Resume {
		b.report.add(scenario, "resume", "ms", "mcptrack", found.Resume[i])
	}
	return found.Middle, nil
}

// logbench is a command of scripts/logbench, whose errors are shown.
func (b *bench) logbench(ctx context.Context, what, dir string, events int) (*exec.Cmd, error) {
	if b.log == "" {
		return nil, errors.New("no -log")
	}
	cmd := exec.CommandContext(ctx, b.log, what, dir, strconv.Itoa(events))
	cmd.Stderr = os.Stderr
	return cmd, nil
}

// resume measures how a client reads the second half of the log: the time to its first event, and
// the events a second.
func (b *bench) resume(ctx context.Context, scenario string, addr netip.AddrPort, after string) error {
	ctx, cancel := context.WithTimeout(ctx, oneShotLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr.String()+"/events?type=resource.updated", nil)
	if err != nil {
		return err
	}
	req.Header.Set("Last-Event-ID", after)
	began := time.Now()
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("resume after %s: %s", after, res.Status)
	}
	var first time.Duration
	lines := bufio.NewScanner(res.Body)
	for n := 0; n < journalEvents/2; {
		if !lines.Scan() {
			return fmt.Errorf("resume after %s: %d events came, then %w", after, n, errors.Join(lines.Err(), io.ErrUnexpectedEOF))
		}
		if !bytes.Contains(lines.Bytes(), []byte(`"type":"resource.updated"`)) {
			continue
		}
		if n++; n == 1 {
			first = time.Since(began)
		}
	}
	b.report.add(scenario, "resume, first event", "ms", "mcptrack", milliseconds(first))
	b.report.add(scenario, "resume", "/s", "mcptrack", journalEvents/2/time.Since(began).Seconds())
	return nil
}

// replay prints the log and counts its lines.
func (b *bench) replay(ctx context.Context, dir string) (took time.Duration, lines int, err error) {
	began := time.Now()
	r, err := start(ctx, oneShotLimit, []string{b.mcptrack, "replay", "--data-dir", dir}, false)
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

const historyEvents = 1_000_000

func (b *bench) historyDir() string { return filepath.Join(b.tmp, "history") }

// prepareHistory fills the log.
func (b *bench) prepareHistory(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, serverLimit)
	defer cancel()
	cmd, err := b.logbench(ctx, "fill", b.historyDir(), historyEvents)
	if err != nil {
		return err
	}
	return cmd.Run()
}

// history measures the history of one resource of 10,000, each with 100 events in the log: as
// the call of the library, and as the whole command.
func (b *bench) history(ctx context.Context) error {
	const scenario = "1,000,000 events"
	for range b.runs {
		cmd, err := b.logbench(ctx, "history", b.historyDir(), historyEvents)
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
		took, err := oneShot(ctx, []string{b.mcptrack, "history", "docs", fmt.Sprintf("file:///docs/%d.md", 501*i), "--data-dir", b.historyDir(), "--json"})
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
