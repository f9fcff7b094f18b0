//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"
)

// What applications send while people speak: so many sessions, each with a frame
// of so many bytes so many times a second.
const (
	speechSessions = 100
	speechRate     = 50
	speechBytes    = 10_000
	speechTime     = 3 * time.Second
)

// speech measures the way of audio frames from applications to the endpoint.
func (b injectBench) speech(ctx context.Context, direct bool) (err error) {
	ctx, cancel := context.WithTimeout(ctx, streamLimit)
	defer cancel()
	f := &far{opened: make(chan struct{}, speechSessions)}
	url, done, err := f.serve(ctx)
	if err != nil {
		return err
	}
	defer done()
	scenario, name := "speech, direct", "mcptrack"
	if !direct {
		scenario = "speech, proxy"
		file, err := b.writeConfig(map[string]any{})
		if err != nil {
			return err
		}
		p, err := startBoth(ctx, streamLimit, []string{b.mcptrack, "--config", file, "--log-level", "error", "inject", "--listen", "127.0.0.1:0", "--upstream", url})
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.close()) }()
		line, err := p.out.ReadString('\n')
		at, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
		if err != nil || !ok {
			return fmt.Errorf("it does not listen: %q, %w", line, err)
		}
		url = at
		defer func() {
			if cpu, err := cpuTime(p.cmd.Process.Pid); err == nil {
				b.report.add(scenario, "CPU of one core", "%", name, 100*cpu.Seconds()/speechTime.Seconds())
			}
			if mib, err := memory(p.cmd.Process.Pid, "VmHWM"); err == nil {
				b.report.add(scenario, "peak RSS", "MiB", name, mib)
			}
		}()
	}
	if err := speak(ctx, url); err != nil {
		return err
	}
	const frames = speechSessions * speechRate * int(speechTime/time.Second)
	for over := time.Now().Add(5 * time.Second); f.count() < frames && time.Now().Before(over); {
		time.Sleep(10 * time.Millisecond) // the last are on their way
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.delays) != frames {
		return fmt.Errorf("%s: %d of %d frames came", scenario, len(f.delays), frames)
	}
	slices.Sort(f.delays)
	b.report.add(scenario, "p50", "µs", name, f.delays[frames/2])
	b.report.add(scenario, "p99", "µs", name, f.delays[frames*99/100])
	return nil
}

// speak sends the frames of all sessions, spread evenly over time.
func speak(ctx context.Context, url string) error {
	conns := make([]*websocket.Conn, speechSessions)
	for i := range conns {
		c, _, err := websocket.Dial(ctx, url, nil)
		if err != nil {
			return err
		}
		defer func() { _ = c.CloseNow() }()
		conns[i] = c
	}
	const every = time.Second / speechRate
	began := time.Now().Add(100 * time.Millisecond)
	failed := make([]error, speechSessions)
	var wg sync.WaitGroup
	for i, c := range conns {
		wg.Go(func() {
			frame := make([]byte, speechBytes)
			at := began.Add(every * time.Duration(i) / speechSessions)
			for range speechRate * int(speechTime/time.Second) {
				time.Sleep(time.Until(at))
				at = at.Add(every)
				binary.LittleEndian.PutUint64(frame, uint64(time.Now().UnixNano()))
				if err := c.Write(ctx, websocket.MessageBinary, frame); err != nil {
					failed[i] = err
					return
				}
			}
			failed[i] = c.Close(websocket.StatusNormalClosure, "")
		})
	}
	wg.Wait()
	failed = slices.DeleteFunc(failed, func(err error) bool { return err == nil })
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d sessions broke off, the first: %w", len(failed), speechSessions, failed[0])
	}
	return nil
}
