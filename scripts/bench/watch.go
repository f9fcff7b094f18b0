//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

const (
	streamLimit = 90 * time.Second
	// serverLimit bounds servers, which on a busy machine take 1,000 subscriptions first.
	serverLimit = 5 * time.Minute

	// settle is how long after the last notification the work that it caused
	// may take: the coalescing window of ours, in which a trailing event comes,
	// and what is left of a second one.
	settle = 3 * time.Second
)

// list measures one-shot commands on a native server and on server-everything.
func (b *bench) list(ctx context.Context) error {
	everything := filepath.Join(b.peers, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
	servers := []struct {
		scenario string
		argv     []string
		runs     int
	}{
		{"list native", []string{b.self, "tiny"}, 4 * b.runs},
		{"list everything", []string{b.node, everything, "stdio"}, b.runs},
	}
	clients := []contender{b.floor(), b.bare(), b.ours(), b.typescript(), b.inspector()}
	defer func() {
		r := b.report
		r.ratio(1.2, "list native", "wall", "mcp-go")
		r.ratio(0.1, "list native", "wall", "TypeScript")
		r.ratio(0.1, "list native", "wall", "Inspector")
		r.ratio(1.1, "list everything", "wall", "floor")
		r.atMost(20, "list native", "peak RSS")
	}()
	for _, s := range servers {
		for run := range 3 { // this also warms the caches
			for _, c := range clients {
				if c.slow && run > 0 {
					continue
				}
				err := b.listPeak(ctx, s.scenario, c, s.argv)
				if err := b.without(c, s.scenario, err); err != nil {
					return err
				}
			}
		}
		for run := range s.runs {
			for _, c := range clients {
				if c.slow && run >= b.seldom() {
					continue
				}
				err := b.listOnce(ctx, s.scenario, c, s.argv)
				if err := b.without(c, s.scenario, err); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

func (b *bench) listOnce(ctx context.Context, scenario string, c contender, server []string) error {
	commands, err := c.list(server)
	if err != nil {
		return err
	}
	var total time.Duration
	for _, argv := range commands {
		took, err := oneShot(ctx, argv)
		if err != nil {
			return err
		}
		total += took
	}
	b.report.add(scenario, "wall", "ms", c.name, milliseconds(total))
	return nil
}

func (b *bench) listPeak(ctx context.Context, scenario string, c contender, server []string) error {
	commands, err := c.list(server)
	if err != nil {
		return err
	}
	mib, err := peakRSS(ctx, commands[0])
	if err == nil {
		b.report.add(scenario, "peak RSS", "MiB", c.name, mib)
	}
	return err
}

// without returns the error of a measurement of mcptrack. It only reports the error of another
// client, and the measuring continues.
func (b *bench) without(c contender, scenario string, err error) error {
	if err == nil || c.name == b.ours().name {
		return err
	}
	b.report.fail(scenario+", "+c.name, err)
	return nil
}

// ready measures the time from the start of the process to the line that says
// that all resources are subscribed.
func (b *bench) ready(ctx context.Context) error {
	cases := []struct {
		scenario string
		load     load
		clients  []contender
	}{
		{"ready 1", load{servers: 1, resources: 1}, []contender{b.ours()}},
		{"ready 100", load{servers: 1, resources: 100}, []contender{b.bare(), b.ours(), b.typescript()}},
		{"ready 1000", load{servers: 1, resources: 1000}, []contender{b.bare(), b.ours(), b.typescript()}},
		{"ready 100, digest", load{servers: 1, resources: 100, read: "digest"}, []contender{b.ours()}},
		{"ready 100 x 100", load{servers: 100, resources: 100}, []contender{b.ours()}},
	}
	for _, s := range cases {
		for range b.often() {
			for _, c := range s.clients {
				err := b.readyOnce(ctx, s.scenario, c, s.load)
				if err := b.without(c, s.scenario, err); err != nil {
					return err
				}
			}
		}
	}
	// With one resource nearly all of the time is that up to the handshake.
	b.report.difference(15, "ready 100", "ready 1", "wall")
	b.report.ratio(1.3, "ready 1000", "wall", "mcp-go")
	b.report.atMost(5000, "ready 100 x 100", "wall")
	return nil
}

func (b *bench) readyOnce(ctx context.Context, scenario string, c contender, l load) error {
	argv, err := c.watch(l)
	if err != nil {
		return err
	}
	p, err := start(ctx, streamLimit, argv, false)
	if err != nil {
		return err
	}
	took, err := p.await(c.ready, l.servers)
	if err := errors.Join(err, p.close()); err != nil {
		return err
	}
	b.report.add(scenario, "wall", "ms", c.name, milliseconds(took))
	return nil
}

// latency measures the time from the sending of an update to the arrival of
// its line, every update being of another resource so that nothing coalesces.
func (b *bench) latency(ctx context.Context) error {
	for range b.runs {
		for _, c := range []contender{b.bare(), b.ours(), b.typescript()} {
			if err := b.without(c, "latency 500/s", b.latencyOnce(ctx, c)); err != nil {
				return err
			}
		}
	}
	b.report.ratio(1.2, "latency 500/s", "p50", "mcp-go")
	b.report.ratio(2, "latency 500/s", "p99", "mcp-go")
	return nil
}

func (b *bench) latencyOnce(ctx context.Context, c contender) error {
	const count, rate = 1500, 500
	l := load{servers: 1, resources: count, count: count, rate: rate, each: true, times: b.times()}
	argv, err := c.watch(l)
	if err != nil {
		return err
	}
	p, err := start(ctx, streamLimit, argv, false)
	if err != nil {
		return err
	}
	arrived, err := p.arrivals(count, nil)
	if err := errors.Join(err, p.close()); err != nil {
		return err
	}
	return b.addDelays("latency 500/s", c.name, arrived)
}

// addDelays adds the percentiles of the times from sending to arrival.
func (b *bench) addDelays(scenario, client string, arrived []int64) error {
	sent, err := readTimes(b.times())
	if err != nil {
		return err
	}
	var delays []float64 // µs
	for i, at := range arrived {
		if at != 0 && i < len(sent) {
			delays = append(delays, float64(at-sent[i])/1e3)
		}
	}
	if len(delays) != len(arrived) {
		return fmt.Errorf("%s, %s: %d of %d updates arrived", scenario, client, len(delays), len(arrived))
	}
	b.report.percentiles(scenario, "", "µs", client, delays)
	return nil
}

// arrivals reads update lines until blastDone is announced and returns when
// each resource's first one came, in wall clock nanoseconds; only of the server
// whose mark a line has to have.
func (r *running) arrivals(count int, server []byte) ([]int64, error) {
	at := make([]int64, count)
	missing, done := count, false
	for missing > 0 || !done { // updates of different resources have no order
		line, err := r.out.ReadSlice('\n')
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			return nil, fmt.Errorf("%s: %d of %d updates missing: %w", r.cmd.Args[0], missing, count, err)
		}
		now := time.Now().UnixNano()
		_, rest, ok := bytes.Cut(line, []byte(blastURI))
		ok = ok && bytes.Contains(line, server)
		// The line that lists what is subscribed names many, an update one.
		if !ok || len(rest) < 6 || bytes.Contains(rest, []byte(blastURI)) || bytes.Contains(line, []byte(`"subscription.active"`)) {
			continue
		}
		i, err := strconv.Atoi(string(rest[:6]))
		switch {
		case err != nil:
			return nil, fmt.Errorf("update line %q: %w", line, err)
		case blastURI+string(rest[:6]) == blastDone:
			done = true
		case i < count && at[i] == 0:
			at[i] = now
			missing--
		}
	}
	return at, nil
}

// cpu measures what 100,000 notifications over 100 resources cost, and what
// memory is resident afterwards.
func (b *bench) cpu(ctx context.Context) error {
	const count = 100_000
	for range b.runs {
		for _, s := range []struct {
			scenario string
			read     string
			client   contender
		}{
			{"100,000 updates", "none", b.bare()},
			{"100,000 updates", "none", b.ours()},
			{"100,000 updates", "none", b.typescript()},
			{"100,000 updates, digest", "digest", b.ours()},
		} {
			l := load{servers: 1, resources: 100, count: count, read: s.read, times: b.times()}
			if err := b.without(s.client, s.scenario, b.cpuOnce(ctx, s.scenario, s.client, l)); err != nil {
				return err
			}
		}
	}
	b.report.ratio(1.2, "100,000 updates", "CPU", "mcp-go")
	b.report.atMost(22, "100,000 updates", "RSS after")
	return nil
}

func (b *bench) cpuOnce(ctx context.Context, scenario string, c contender, l load) error {
	argv, err := c.watch(l)
	if err != nil {
		return err
	}
	p, err := start(ctx, streamLimit, argv, false)
	if err != nil {
		return err
	}
	err = b.burst(p, scenario, c)
	return errors.Join(err, p.close())
}

func (b *bench) burst(p *running, scenario string, c contender) error {
	if _, err := p.await(c.ready, 1); err != nil {
		return err
	}
	pid := p.cmd.Process.Pid
	before, err := cpuTime(pid) // blastPause leaves the time for it
	if err != nil {
		return err
	}
	// The line of readiness of ours has all URIs, hence not the bare URI.
	if _, err := p.await(blastDone, 1); err != nil {
		return err
	}
	// Trailing events arrive now; a full pipe would block the client.
	time.Sleep(settle)
	after, err := cpuTime(pid)
	if err != nil {
		return err
	}
	mib, err := memory(pid, "VmRSS")
	if err != nil {
		return err
	}
	b.report.add(scenario, "CPU", "ms", c.name, milliseconds(after-before))
	b.report.add(scenario, "RSS after", "MiB", c.name, mib)
	return nil
}

// version measures the start of the program.
func (b *bench) version(ctx context.Context) error {
	program, err := os.Stat(b.mcptrack)
	if err != nil {
		return err
	}
	b.report.add("program", "size, stripped", "MiB", "mcptrack", float64(program.Size())/(1<<20))
	b.report.atMost(24, "program", "size, stripped")
	for run := range 7*b.runs + 1 {
		took, err := oneShot(ctx, []string{b.mcptrack, "version"})
		if err != nil {
			return err
		}
		if run > 0 {
			b.report.add("start", "wall", "ms", "mcptrack", milliseconds(took))
		}
	}
	b.report.atMost(20, "start", "wall")
	return nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// isolation measures how a flood affects another server: the time from an update of a calm server to
// its line, alone and while another server sends 50,000 notifications a second, and the resident
// memory after the flood.
func (b *bench) isolation(ctx context.Context) error {
	const count, rate, flood = 900, 300, 50_000
	for range b.runs {
		for scenario, loud := range map[string]bool{"calm alone": false, "calm beside a flood": true} {
			servers := map[string]any{"calm": b.blastEntry(load{resources: count, count: count, rate: rate, times: b.times()})}
			if loud {
				servers["loud"] = b.blastEntry(load{resources: 100, count: 5 * flood, rate: flood, times: filepath.Join(b.tmp, "loud")})
			}
			file, err := b.writeConfig(servers)
			if err != nil {
				return err
			}
			p, err := start(ctx, streamLimit, []string{b.mcptrack, "--config", file, "watch", "--json"}, false)
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
			if err := b.addDelays(scenario, "mcptrack", arrived); err != nil {
				return err
			}
			b.report.add(scenario, "RSS after", "MiB", "mcptrack", mib)
		}
	}
	b.report.times(1.5, "calm beside a flood", "calm alone", "p99")
	b.report.times(1.5, "calm beside a flood", "calm alone", "RSS after")
	return nil
}

const (
	topRate  = 100 // events a second
	topWarm  = 3 * time.Second
	topSpan  = 5 * time.Second
	topWidth = 200 // columns

	// topLeast is how many bytes are printed at least; top writes changed cells only.
	topLeast = int64(topSpan/time.Second) * topRate * 20
)

// top measures CPU and resident memory of the live terminal at 100 events a second, in comparison
// with watch, which prints them.
func (b *bench) top(ctx context.Context) error {
	l := load{
		resources: 5 * topRate / 2, // each changes at most once in the 2 s in which events are coalesced
		count:     int((topWarm + topSpan + 30*time.Second).Seconds()) * topRate, rate: topRate, times: b.times(),
	}
	file, err := b.writeConfig(map[string]any{"load": b.blastEntry(l)})
	if err != nil {
		return err
	}
	for run := range b.runs {
		for command, turns := range map[string]int{"watch": b.seldom(), "top": b.runs} {
			if run >= turns {
				continue
			}
			if err := b.onTerminal(ctx, command, []string{b.mcptrack, "--config", file, command}); err != nil {
				return err
			}
		}
	}
	b.report.atMost(5, "top", "CPU at 100 events/s")
	b.report.difference(30, "top", "watch", "RSS at 100 events/s")
	return nil
}

// onTerminal runs a command on its own terminal and reports its CPU time and memory.
func (b *bench) onTerminal(ctx context.Context, scenario string, argv []string) (err error) {
	screen, tty, err := openTerminal(topWidth, 50)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	err = cmd.Start()
	_ = tty.Close()
	if err != nil {
		return errors.Join(err, screen.Close())
	}
	drained := make(chan int64, 1) // the bytes that it printed; sent to once
	go func() {
		n, _ := io.Copy(io.Discard, screen) // fails when the other side is closed
		drained <- n
	}()
	defer func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait() // a terminal that goes away may be an error
		printed := <-drained
		_ = screen.Close()
		if err = errors.Join(err, reapOrphans(time.Now())); err == nil && printed < topLeast {
			err = fmt.Errorf("%s printed only %d bytes", scenario, printed)
		}
	}()
	wait := func(d time.Duration) {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
	}
	wait(topWarm)
	began := time.Now()
	before, err := cpuTime(cmd.Process.Pid)
	if err != nil {
		return err
	}
	wait(topSpan)
	after, err := cpuTime(cmd.Process.Pid)
	if err != nil {
		return err
	}
	mib, err := memory(cmd.Process.Pid, "VmRSS")
	if err != nil {
		return err
	}
	b.report.add(scenario, "CPU at 100 events/s", "%", "mcptrack", 100*float64(after-before)/float64(time.Since(began)))
	b.report.add(scenario, "RSS at 100 events/s", "MiB", "mcptrack", mib)
	return ctx.Err()
}

// openTerminal makes a pseudo terminal: what is written to tty is read from screen.
func openTerminal(columns, rows uint16) (screen, tty *os.File, err error) {
	screen, err = os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		return nil, nil, err
	}
	defer func() {
		if err != nil {
			_ = screen.Close()
		}
	}()
	var locked, number int32
	size := [4]uint16{rows, columns}
	for request, argument := range map[uintptr]unsafe.Pointer{
		syscall.TIOCSPTLCK: unsafe.Pointer(&locked), syscall.TIOCGPTN: unsafe.Pointer(&number), syscall.TIOCSWINSZ: unsafe.Pointer(&size),
	} {
		if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, screen.Fd(), request, uintptr(argument)); errno != 0 {
			return nil, nil, fmt.Errorf("make a terminal: %w", errno)
		}
	}
	tty, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	return screen, tty, err
}
