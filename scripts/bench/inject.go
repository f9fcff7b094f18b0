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

// inject measures the latency that the proxy adds to a frame, in alternation with direct connections,
// and the time from a server's notification to the message on the wire. Applications and endpoint
// are this process.
func (b *bench) inject(ctx context.Context) error {
	for run := range b.runs {
		for _, direct := range []bool{true, false} {
			name := "speech, proxy"
			if direct {
				name = "speech, direct"
			}
			b.report.fail(name, b.speech(ctx, direct))
		}
		// All updates are of different resources, without limits; and all resources change
		// every second, with the default limits.
		for _, i := range []injection{
			{scenario: "injection 100/s", turns: b.runs, resources: 300, count: 300, rate: 100, flags: []string{"--max-per-minute", "0", "--coalesce", "0"}},
			{scenario: "injection 200/s, 200 resources, defaults", turns: b.seldom(), resources: 200, count: 2000, rate: 200},
		} {
			if run < i.turns {
				b.report.fail(i.scenario, b.injection(ctx, i))
			}
		}
	}
	b.report.difference(1000, "speech, proxy", "speech, direct", "p99")
	b.report.atMost(100, "injection 100/s", "p99")
	b.report.atMost(3000, "injection 200/s, 200 resources, defaults", "p99")
	return nil
}

type part struct{ Text string }

// far is a Realtime endpoint that records arrival times.
type far struct {
	mu     sync.Mutex
	delays []float64            // µs, of binary frames that begin with the time of sending
	texts  map[string][]arrival // by URI
	items  int
	twice  int           // messages about a resource that their item has another one of
	opened chan struct{} // receives one for every session; more room than there are sessions
}

// arrival is a message about a resource, with wall clock nanoseconds.
type arrival struct{ stamp, at int64 }

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
				Content []part
			}
		}
		if json.Unmarshal(buf[:n], &e) != nil || len(e.Item.Content) == 0 {
			continue
		}
		f.note(now, e.Item.Content)
		_ = c.Write(r.Context(), websocket.MessageText, fmt.Appendf(nil, `{"type":"conversation.item.added","item":{"id":%q}}`, e.Item.ID))
	}
}

// note records the messages of one item.
func (f *far) note(now int64, parts []part) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.items++
	here := map[string]bool{}
	for _, p := range parts {
		words := strings.Fields(p.Text) // Resource URI updated for MCP server ID at TIME
		if len(words) != 9 {
			continue
		}
		stamp, err := time.Parse(time.RFC3339, words[8])
		if err != nil {
			continue
		}
		uri := words[1]
		if here[uri] {
			f.twice++
		}
		here[uri] = true
		f.texts[uri] = append(f.texts[uri], arrival{stamp.UnixNano(), now})
	}
}

// after returns when the first message came that covers an update of a time; stamps are
// whole milliseconds.
func (f *far) after(uri string, sent int64) (at int64, ok bool) {
	for _, a := range f.texts[uri] {
		if a.stamp >= sent-int64(time.Millisecond) && a.at >= sent {
			return a.at, true
		}
	}
	return 0, false
}

// covered returns how many ms passed from the sending of each update until a message that
// covers it. Updates without such a message are left out.
func (f *far) covered(sent []int64, resources int) []float64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	delays := make([]float64, 0, len(sent))
	for n, at := range sent {
		if got, ok := f.after(resourceURI(n%resources), at); ok {
			delays = append(delays, float64(got-at)/1e6)
		}
	}
	return delays
}

func (f *far) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.delays)
}

// injection is a load of updates, and the flags of inject.
type injection struct {
	scenario               string
	turns                  int
	resources, count, rate int
	flags                  []string
}

// injection measures the time from a server's notification to a message at the endpoint
// that covers it.
func (b *bench) injection(ctx context.Context, i injection) (err error) {
	ctx, cancel := context.WithTimeout(ctx, streamLimit)
	defer cancel()
	f := &far{texts: map[string][]arrival{}, opened: make(chan struct{}, 8)}
	url, done, err := f.serve(ctx)
	if err != nil {
		return err
	}
	defer done()
	l := load{resources: i.resources, count: i.count, rate: i.rate, times: b.times(), after: filepath.Join(b.tmp, "go")}
	_ = os.Remove(l.after)
	file, err := b.writeConfig(map[string]any{"blast": b.blastEntry(l)})
	if err != nil {
		return err
	}
	p, err := start(ctx, streamLimit, append([]string{b.mcptrack, "--config", file, "inject", "--url", url}, i.flags...), false)
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
	var delays []float64
	for over := time.Now().Add(3 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		// The last are in the windows of their resources.
		if delays = f.covered(sent, i.resources); len(delays) == len(sent) || time.Now().After(over) {
			break
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(delays) != i.count || f.twice > 0 {
		return fmt.Errorf("%s: %d of %d updates came, %d twice in an item", i.scenario, len(delays), i.count, f.twice)
	}
	b.report.percentiles(i.scenario, "", "ms", "mcptrack", delays)
	b.report.add(i.scenario, "max", "ms", "mcptrack", delays[i.count-1])
	b.report.add(i.scenario, "items", "", "mcptrack", float64(f.items))
	return nil
}

// The load of speech applications.
const (
	speechSessions = 100
	speechRate     = 50
	speechBytes    = 10_000
	speechTime     = 3 * time.Second
)

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
		p, proxy, err := startServer(ctx, b.mcptrack, "--config", file, "--log-level", "error", "inject", "--listen", "127.0.0.1:0", "--upstream", url)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, p.close()) }()
		url = proxy
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
	b.report.percentiles(scenario, "", "µs", name, f.delays)
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
