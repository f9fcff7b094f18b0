//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// A fanout is many clients of one serve-sse, which gets updates of distinct
// resources at a rate.
type fanout struct {
	scenario    string
	turns       int
	clients     int
	count, rate int
	deliveries  float64 // goal: at least so many a second, 0 for none
	p99         float64 // goal: at most so many ms
}

// sse measures serve-sse with durability always: a server notifies mcptrack of
// changes, mcptrack stores them and sends them to all clients. Latency is from the sending
// server to the client's read; server, mcptrack and clients share this machine.
func (b *bench) sse(ctx context.Context) error {
	for _, f := range []fanout{
		{scenario: "sse idle", turns: b.runs, clients: 1, count: 100, rate: 20, p99: 5},
		{scenario: "sse 1000 x 600/s", turns: b.runs, clients: 1000, count: 3000, rate: 600, deliveries: 500_000, p99: 100},
		{scenario: "sse 5000 x 60/s", turns: b.seldom(), clients: 5000, count: 300, rate: 60, p99: 200},
	} {
		for range f.turns {
			if err := b.fanOut(ctx, f); err != nil {
				return fmt.Errorf("%s: %w", f.scenario, err)
			}
		}
		b.report.atMost(0, f.scenario, "lost")
		b.report.atMost(0, f.scenario, "twice or out of order")
		b.report.atMost(f.p99, f.scenario, "p99")
		if f.deliveries > 0 {
			b.report.atLeast(f.deliveries, f.scenario, "deliveries")
		}
	}
	for range b.seldom() {
		if err := b.idleClients(ctx, 2000); err != nil {
			return fmt.Errorf("idle clients: %w", err)
		}
	}
	b.report.atMost(30, "sse 2000 idle clients", "RSS per client")
	return nil
}

func (b *bench) fanOut(ctx context.Context, f fanout) (err error) {
	l := load{resources: f.count, count: f.count, rate: f.rate, times: filepath.Join(b.tmp, "times"), after: filepath.Join(b.tmp, "go")}
	_ = os.Remove(l.after)
	s, err := b.serve(ctx, b.dataDir(), l, "--max-clients", strconv.Itoa(f.clients+10))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	runtime.LockOSThread() // the clients are one thread
	defer runtime.UnlockOSThread()
	ls, err := listen(s.addr, f.clients, 20*time.Second)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ls.close()) }()
	ls.expect(f.count)
	before, err := cpuTime(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.after, nil, 0o600); err != nil {
		return err
	}
	limit := time.Now().Add(time.Duration(f.count/f.rate)*time.Second + 20*time.Second)
	// What is not received in time is reported as lost.
	late := ls.until(limit, func() bool { return ls.arrived == f.clients*f.count })
	cpu, err := cpuTime(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	sent, err := readTimes(l.times)
	if err != nil {
		return errors.Join(late, err)
	}
	delays, lost := ls.delays(sent)
	n := len(delays)
	if n == 0 {
		return errors.Join(late, errors.New("nothing came"))
	}
	last := ls.base.UnixNano()
	for _, at := range ls.arrivals {
		last = max(last, ls.base.UnixNano()+int64(at)*1000)
	}
	r := b.report
	r.add(f.scenario, "deliveries", "/s", "mcptrack", float64(n)/(float64(last-sent[0])/1e9))
	r.add(f.scenario, "p50", "ms", "mcptrack", delays[n/2]/1e3)
	r.add(f.scenario, "p99", "ms", "mcptrack", delays[n*99/100]/1e3)
	r.add(f.scenario, "lost", "", "mcptrack", float64(lost))
	r.add(f.scenario, "clients closed", "", "mcptrack", float64(ls.ended))
	r.add(f.scenario, "twice or out of order", "", "mcptrack", float64(ls.twice+ls.disorder))
	r.add(f.scenario, "CPU per million deliveries", "s", "mcptrack", (cpu-before).Seconds()*1e6/float64(n))
	return nil
}

// idleClients measures the memory of clients that get nothing.
func (b *bench) idleClients(ctx context.Context, n int) (err error) {
	s, err := b.serve(ctx, b.dataDir(), load{resources: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	before, err := memory(s.cmd.Process.Pid, "VmRSS")
	if err != nil {
		return err
	}
	ls, err := listen(s.addr, n, 20*time.Second)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ls.close()) }()
	after, err := memory(s.cmd.Process.Pid, "VmRSS")
	if err != nil {
		return err
	}
	b.report.add(fmt.Sprintf("sse %d idle clients", n), "RSS per client", "KiB", "mcptrack", (after-before)*1024/float64(n))
	return nil
}

// dataDir is a new name for a data directory.
func (b *bench) dataDir() string {
	b.dirs++
	return filepath.Join(b.tmp, fmt.Sprintf("data%d", b.dirs))
}

// served is a serve-sse.
type served struct {
	*running
	addr    netip.AddrPort
	drained chan struct{} // closed when its output has ended
}

// serve starts serve-sse on a data directory, with one load server, and waits
// until it is ready.
func (b *bench) serve(ctx context.Context, dir string, l load, flags ...string) (*served, error) {
	entry := map[string]any{
		"command": b.self, "args": b.blastArgv(l)[1:], "read": "none",
		"trackResources": true, "trackTools": false, "trackPrompts": false,
	}
	if l.count > 0 {
		entry["onConnect"] = []any{map[string]any{"tool": "blast", "arguments": blastOptions{Count: l.count, Rate: l.rate, After: l.after}}}
	}
	file, err := b.writeConfig(map[string]any{"blast": entry})
	if err != nil {
		return nil, err
	}
	argv := append([]string{b.mcptrack, "--config", file, "serve-sse", "--addr", "127.0.0.1:0", "--data-dir", dir}, flags...)
	r, err := startBoth(ctx, streamLimit, argv)
	if err != nil {
		return nil, err
	}
	s := &served{running: r, drained: make(chan struct{})}
	const mark = "listening on http://"
	for s.addr == (netip.AddrPort{}) && err == nil {
		var line string
		if line, err = r.out.ReadString('\n'); err == nil && strings.HasPrefix(line, mark) {
			s.addr, err = netip.ParseAddrPort(strings.TrimSpace(line[len(mark):]))
		}
	}
	go func() {
		defer close(s.drained)
		_, _ = io.Copy(io.Discard, r.out)
	}()
	if err == nil {
		err = s.ready(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve-sse: %w", err), s.close())
	}
	return s, nil
}

// ready waits until every server was tried.
func (s *served) ready(ctx context.Context) error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr.String()+"/readyz", nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(res.Status)
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("not ready: %w", err)
		}
	}
}

// close ends it in order and waits.
func (s *served) close() error {
	http.DefaultClient.CloseIdleConnections()
	s.terminate()
	<-s.drained
	return s.finish()
}
