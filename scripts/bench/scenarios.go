//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// settle is how long after the last notification the work that it caused may take: the coalescing
// window of ours, in which a trailing event comes, and what is left of a second one.
const settle = 3 * time.Second

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// inTurns measures contenders n times, one after another. It only reports the failure of another
// client than mcptrack, and the measuring continues.
func (b *bench) inTurns(n int, scenario string, clients []contender, measure func(contender) error) error {
	for range n {
		for _, c := range clients {
			err := measure(c)
			if err != nil && c.name == "mcptrack" {
				return fmt.Errorf("%s: %w", scenario, err)
			}
			b.report.fail(scenario+", "+c.name, err)
		}
	}
	return nil
}

// start measures the start of the program, and the time to the first line that tells the user
// something, for commands that new users run first.
func (b *bench) start(ctx context.Context) error {
	program, err := os.Stat(b.mcptrack())
	if err != nil {
		return err
	}
	b.report.add("program", "size, stripped", "MiB", "mcptrack", float64(program.Size())/(1<<20))
	for range 7 * b.runs {
		err1 := b.run(ctx, "version", "empty program", filepath.Join(b.built, "empty"))
		err2 := b.run(ctx, "version", "mcptrack", b.mcptrack(), "version")
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
	}
	file, err := b.writeConfig(map[string]any{"demo": map[string]any{"command": b.mcptrack(), "args": []string{"demo-server"}, "trackResources": true}})
	if err != nil {
		return err
	}
	for range b.often() {
		for _, c := range []struct {
			name string
			args []string
			text string // what the first useful line contains
		}{
			{"--help", []string{"--help"}, "Usage:"},
			{"validate", []string{"validate", file}, "ok"},
			{"list", []string{"--config", file, "list"}, "demo"},
			{"read", []string{"--config", file, "read", "demo", "vault://note/guide.md"}, "#"},
			{"watch --demo", []string{"watch", "--demo"}, "updated"},
			{"serve-sse --demo", []string{"serve-sse", "--demo", "--addr", "127.0.0.1:0", "--data-dir", filepath.Join(b.tmp, "demo")}, "listening on"},
		} {
			err := b.using(ctx, true, append([]string{b.mcptrack()}, c.args...), func(p *process) error {
				_, err := p.await(c.text, 1)
				b.report.add("first "+c.name, "wall", "ms", "mcptrack", milliseconds(time.Since(p.began)))
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// list measures one-shot commands on a native server and on server-everything.
func (b *bench) list(ctx context.Context) error {
	measure := func(scenario string, turns int, server []string) error {
		clients := []contender{b.floor(), b.bare(), b.ours(), b.typescript()}
		return b.inTurns(turns, scenario, clients, func(c contender) error {
			argv, err := b.lists(c, server)
			if err != nil {
				return err
			}
			return b.run(ctx, scenario, c.name, argv...)
		})
	}
	err1 := measure("list native", 4*b.runs, b.blastArgv(load{resources: 100}))
	err2 := measure("list everything", b.often(), b.everything())
	return errors.Join(err1, err2)
}

// watching starts a contender with a load, and ends it when measure returns.
func (b *bench) watching(ctx context.Context, c contender, l load, measure func(*process) error) error {
	argv, err := b.watches(c, l)
	if err != nil {
		return err
	}
	return b.using(ctx, false, argv, measure)
}

// ready measures the time from the start of the process to the line that says
// that all resources are subscribed.
func (b *bench) ready(ctx context.Context) error {
	measure := func(scenario string, turns int, l load, clients ...contender) error {
		return b.inTurns(turns, scenario, clients, func(c contender) error {
			return b.watching(ctx, c, l, func(p *process) error {
				_, err := p.await(c.ready, max(1, l.servers))
				if err == nil {
					b.report.add(scenario, "wall", "ms", c.name, milliseconds(time.Since(p.began)))
				}
				return err
			})
		})
	}
	err1 := measure("ready 1000", b.often(), load{resources: 1000}, b.bare(), b.ours(), b.typescript())
	err2 := measure("ready 100 x 100", b.seldom(), load{resources: 100, servers: 100}, b.ours())
	return errors.Join(err1, err2)
}

// latency measures the time from the sending of an update to the arrival of its line.
func (b *bench) latency(ctx context.Context) error {
	return b.delays(ctx, "latency 500/s", []contender{b.bare(), b.ours(), b.typescript()}, 1500, 500)
}

// delays measures the times from sending to arrival, every update being of another resource so
// that nothing coalesces.
func (b *bench) delays(ctx context.Context, scenario string, clients []contender, count, rate int) error {
	l := load{resources: count, count: count, rate: rate, print: 1, times: b.times()}
	return b.inTurns(b.runs, scenario, clients, func(c contender) error {
		return b.watching(ctx, c, l, func(p *process) error {
			return b.addDelays(scenario, c.name, [][]int64{arrivals(p.out, count)})
		})
	})
}

// addDelays adds the percentiles of the times from sending to arrival at all readers, and how many
// updates never arrived.
func (b *bench) addDelays(scenario, client string, arrived [][]int64) error {
	sent, err := readTimes(b.times())
	if err != nil {
		return err
	}
	var delays []float64 // ms
	for _, at := range arrived {
		for i, sent := range sent {
			if at[i] != 0 {
				delays = append(delays, float64(at[i]-sent)/1e6)
			}
		}
	}
	if len(delays) == 0 {
		return errors.New("nothing came")
	}
	b.report.percentiles(scenario, "ms", client, delays)
	b.report.add(scenario, "lost", "", client, float64(len(arrived)*len(sent)-len(delays)))
	return nil
}

// arrivals reads update lines until all came and blastDone is announced, or nothing follows. It
// returns when each resource's first one came, in wall clock nanoseconds, 0 for never.
func arrivals(in *lines, count int) []int64 {
	at := make([]int64, count)
	missing, done := count, false
	for missing > 0 || !done { // updates of different resources have no order
		line, err := in.next()
		if err != nil {
			break
		}
		now := time.Now().UnixNano()
		if bytes.Contains(line, []byte(`"subscription.active"`)) || bytes.Contains(line, []byte(`"serverId":"loud"`)) {
			continue
		}
		switch i := updated(line); {
		case i == updated([]byte(blastDone)):
			done = true
		case i >= 0 && i < count && at[i] == 0:
			at[i] = now
			missing--
		}
	}
	return at
}

// updated returns the number of the resource that a line names, -1 if it names none.
func updated(line []byte) int {
	_, rest, found := bytes.Cut(line, []byte(blastURI))
	if !found || len(rest) < 6 {
		return -1
	}
	i, err := strconv.Atoi(string(rest[:6]))
	if err != nil {
		return -1
	}
	return i
}

// flood measures what 100,000 notifications over 100 resources cost, and what memory is resident
// afterwards. Then it measures how 50,000 notifications a second of one server delay the updates
// of another.
func (b *bench) flood(ctx context.Context) error {
	measure := func(scenario, read string, clients ...contender) error {
		l := load{resources: 100, count: 100_000, read: read}
		return b.inTurns(b.runs, scenario, clients, func(c contender) error {
			return b.watching(ctx, c, l, func(p *process) error { return b.burst(p, scenario, c) })
		})
	}
	err1 := measure("100,000 updates", "none", b.bare(), b.ours(), b.typescript())
	err2 := measure("100,000 updates, digest", "digest", b.ours())
	alone, beside := b.ours(), b.ours()
	alone.name = "alone"
	beside.others = map[string]any{"loud": b.entry(load{resources: 100, count: 250_000, rate: 50_000})}
	err3 := b.delays(ctx, "calm beside a flood", []contender{alone, beside}, 900, 300)
	return errors.Join(err1, err2, err3)
}

func (b *bench) burst(p *process, scenario string, c contender) error {
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
	after, err1 := cpuTime(pid)
	mib, err2 := memory(pid, "status", "VmRSS")
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	b.report.add(scenario, "CPU", "ms", c.name, milliseconds(after-before))
	b.report.add(scenario, "RSS after", "MiB", c.name, mib)
	return nil
}

// benchmark runs benchmarks in the test program of a package, and adds what they report.
func (b *bench) benchmark(ctx context.Context, program, pattern string) error {
	argv := []string{filepath.Join(b.built, program+".test"), "-test.run=^$", "-test.bench=" + pattern, "-test.count=" + strconv.Itoa(b.runs)}
	return b.using(ctx, true, argv, func(p *process) error {
		for {
			line, err := p.out.next()
			text := string(line)
			switch {
			case text == "PASS\n":
				return nil
			case err != nil || strings.HasPrefix(text, "--- FAIL"):
				return fmt.Errorf("%s: %s %v", pattern, text, err)
			case strings.HasPrefix(text, "Benchmark"):
				b.addMetrics(program, strings.Fields(text))
			}
		}
	})
}

// addMetrics adds what a line says: BenchmarkStore/always-2	1234	5678 ns/op	90 events/s	1.2 p99-ms.
func (b *bench) addMetrics(program string, fields []string) {
	name := strings.TrimSuffix(strings.TrimPrefix(fields[0], "Benchmark"), fmt.Sprintf("-%d", runtime.NumCPU()))
	for i := 2; i+1 < len(fields); i += 2 {
		value, _ := strconv.ParseFloat(fields[i], 64) // go test wrote it
		metric, unit, rate := strings.Cut(fields[i+1], "/")
		switch at := strings.LastIndexByte(metric, '-'); {
		case unit == "op":
			metric, unit = "operation", metric
		case rate:
			unit = "/" + unit
		case at > 0:
			metric, unit = metric[:at], metric[at+1:]
		}
		b.report.add(program+" "+name, metric, unit, "mcptrack", value)
	}
}
