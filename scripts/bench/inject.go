//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
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
	speechTime     = 10 * time.Second
)

// inject measures what the proxy adds to the way of a frame, against a direct
// connection in turns, and the time from a server's notification to the message
// on the wire. Applications and endpoint are this process, on the same machine.
func (b *bench) inject(ctx context.Context) error {
	for range (b.runs + 1) / 2 {
		for _, direct := range []bool{true, false} {
			if err := b.speech(ctx, direct); err != nil {
				return err
			}
		}
		if err := b.injection(ctx); err != nil {
			return err
		}
	}
	b.report.difference(1000, "speech, proxy", "speech, direct", "p99")
	b.report.atMost(100, "injection 100/s", "p99")
	return nil
}

// far is a Realtime endpoint that notes when what it gets has come.
type far struct {
	mu     sync.Mutex
	delays []float64        // µs, of binary frames that begin with the time of sending
	items  map[string]int64 // URI → wall clock nanoseconds of the first message about it
	opened chan struct{}    // gets one for every session; more room than there are sessions
}

// serve makes the endpoint reachable until ctx ends.
func (f *far) serve(ctx context.Context) (url string, done func(), err error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	srv := &http.Server{Handler: f, ReadHeaderTimeout: 5 * time.Second, BaseContext: func(net.Listener) context.Context { return ctx }}
	var wg sync.WaitGroup
	wg.Go(func() { _ = srv.Serve(ln) })
	return "ws://" + ln.Addr().String() + "/v1/realtime", func() {
		_ = srv.Close()
		wg.Wait()
	}, nil
}

func (f *far) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	c.SetReadLimit(-1)
	f.opened <- struct{}{}
	buf := make([]byte, 64<<10)
	for {
		typ, m, err := c.Reader(r.Context())
		if err != nil {
			return
		}
		n, err := io.ReadFull(m, buf)
		if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return
		}
		now := time.Now().UnixNano()
		if typ == websocket.MessageBinary && n == speechBytes {
			f.mu.Lock()
			f.delays = append(f.delays, float64(now-int64(binary.LittleEndian.Uint64(buf)))/1e3)
			f.mu.Unlock()
			continue
		}
		var e struct {
			Item struct {
				ID      string
				Content []struct{ Text string }
			}
		}
		if json.Unmarshal(buf[:n], &e) != nil || len(e.Item.Content) == 0 {
			continue
		}
		uri, _, _ := strings.Cut(strings.TrimPrefix(e.Item.Content[0].Text, "Resource "), " ")
		f.mu.Lock()
		if _, known := f.items[uri]; !known {
			f.items[uri] = now
		}
		f.mu.Unlock()
		_ = c.Write(r.Context(), websocket.MessageText, fmt.Appendf(nil, `{"type":"conversation.item.added","item":{"id":%q}}`, e.Item.ID))
	}
}

func (f *far) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.delays)
}

// speech measures the way of audio frames from applications to the endpoint.
func (b *bench) speech(ctx context.Context, direct bool) (err error) {
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
	return errors.Join(failed...)
}

// injection measures the time from a server's notification to its message at the
// endpoint, every update being of another resource.
func (b *bench) injection(ctx context.Context) (err error) {
	const count, rate = 1000, 100
	ctx, cancel := context.WithTimeout(ctx, streamLimit)
	defer cancel()
	f := &far{items: map[string]int64{}, opened: make(chan struct{}, 8)}
	url, done, err := f.serve(ctx)
	if err != nil {
		return err
	}
	defer done()
	l := load{resources: count, count: count, rate: rate, times: filepath.Join(b.tmp, "times"), after: filepath.Join(b.tmp, "go")}
	_ = os.Remove(l.after)
	file, err := b.writeConfig(map[string]any{"blast": map[string]any{
		"command": b.self, "args": b.blastArgv(l)[1:], "read": "none", "trackResources": true, "trackTools": false, "trackPrompts": false,
		"onConnect": []any{map[string]any{"tool": "blast", "arguments": map[string]any{"count": count, "rate": rate}}},
	}})
	if err != nil {
		return err
	}
	p, err := start(ctx, streamLimit, []string{b.mcptrack, "--config", file, "inject", "--url", url, "--max-per-minute", "0", "--coalesce", "0"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	select {
	case <-f.opened:
	case <-ctx.Done():
		return ctx.Err()
	}
	if err := os.WriteFile(l.after, nil, 0o600); err != nil {
		return err
	}
	if _, err := p.await(blastDone, 1); err != nil { // its receipt
		return err
	}
	sent, err := readTimes(l.times)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	delays := make([]float64, 0, count)
	for i, at := range sent {
		if got, ok := f.items[resourceURI(i)]; ok {
			delays = append(delays, float64(got-at)/1e6)
		}
	}
	if len(delays) != count {
		return fmt.Errorf("%d of %d messages came", len(delays), count)
	}
	slices.Sort(delays)
	b.report.add("injection 100/s", "p50", "ms", "mcptrack", delays[count/2])
	b.report.add("injection 100/s", "p99", "ms", "mcptrack", delays[count*99/100])
	return nil
}
