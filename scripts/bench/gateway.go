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
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	manyServers = 100
	manyTools   = 100 // of each
	manyCalls   = 3000
)

// gateway measures what a gateway adds to a tool call, both over HTTP on this
// machine, and how long 10,000 tools of 100 servers take to be listed and refreshed.
func (b *bench) gateway(ctx context.Context) error {
	for range b.runs {
		if err := b.gatewayCalls(ctx); err != nil {
			return err
		}
	}
	for range b.seldom() {
		if err := b.gatewayLists(ctx); err != nil {
			return err
		}
	}
	b.report.atMost(0.3, "gateway call", "added, p99")
	b.report.atMost(200, "gateway 100 x 100", "list of 10,000 tools")
	b.report.atMost(1000, "gateway 100 x 100", "change to list_changed")
	return nil
}

// gatewayCalls calls a tool directly and through a gateway in turns, so that both
// see the same machine.
func (b *bench) gatewayCalls(ctx context.Context) error {
	server, upstream, err := startServer(ctx, b.self, "many", "10", "http")
	if err != nil {
		return err
	}
	p, through, err := b.startGateway(ctx, map[string]any{"many": map[string]any{"type": "http", "url": upstream, "protocol": "legacy", "trackTools": true}})
	if err != nil {
		return errors.Join(err, server.close())
	}
	defer func() {
		server.end() // first, as close waits until no child is left
		_ = p.close()
	}()
	clients := []*httpClient{{url: upstream}, {url: through}}
	took := [2][]float64{}
	for i, c := range clients {
		if err := c.initialize(ctx); err != nil {
			return err
		}
		took[i] = make([]float64, 0, manyCalls)
	}
	params := map[string]any{"name": "t000", "arguments": map[string]any{"text": "hello"}}
	for n := range manyCalls + 200 {
		for i, c := range clients {
			began := time.Now()
			if _, err := c.ask(ctx, "tools/call", params); err != nil {
				return err
			}
			if n >= 200 { // connections and caches are warm
				took[i] = append(took[i], milliseconds(time.Since(began)))
			}
		}
	}
	b.report.percentiles("gateway call", "", "ms", "direct", took[0])
	b.report.percentiles("gateway call", "", "ms", "mcptrack", took[1])
	p50, p99 := manyCalls/2, manyCalls*99/100 // both are sorted
	b.report.add("gateway call", "added, p50", "ms", "mcptrack", took[1][p50]-took[0][p50])
	b.report.add("gateway call", "added, p99", "ms", "mcptrack", took[1][p99]-took[0][p99])
	return nil
}

func (b *bench) gatewayLists(ctx context.Context) error {
	servers := map[string]any{}
	for i := range manyServers {
		servers[fmt.Sprintf("s%03d", i)] = map[string]any{"command": b.self, "args": []string{"many", strconv.Itoa(manyTools)}, "trackTools": true}
	}
	p, url, err := b.startGateway(ctx, servers)
	if err != nil {
		return err
	}
	defer func() { _ = p.close() }()
	c := &httpClient{url: url}
	if err := c.initialize(ctx); err != nil {
		return err
	}
	news, stop, err := c.listen(ctx)
	if err != nil {
		return err
	}
	defer stop()
	total := manyServers * manyTools
	for range 20 {
		began := time.Now()
		if n, err := c.count(ctx); err != nil || n != total {
			return fmt.Errorf("%d tools, want %d: %w", n, total, err)
		}
		b.report.add("gateway 100 x 100", "list of 10,000 tools", "ms", "mcptrack", milliseconds(time.Since(began)))
	}
	for n := range 10 {
		answer, err := c.ask(ctx, "tools/call", map[string]any{"name": fmt.Sprintf("s%03d_t000", n*7), "arguments": map[string]any{"change": true}})
		if err != nil {
			return err
		}
		var result struct{ Content []struct{ Text string } }
		if err := json.Unmarshal(answer, &result); err != nil || len(result.Content) != 1 {
			return fmt.Errorf("answer %s: %w", answer, err)
		}
		changed, err := strconv.ParseInt(result.Content[0].Text, 10, 64)
		if err != nil {
			return err
		}
		select {
		case at := <-news:
			b.report.add("gateway 100 x 100", "change to list_changed", "ms", "mcptrack", float64(at-changed)/1e6)
		case <-time.After(10 * time.Second):
			return errors.New("no list_changed within 10 s")
		}
		total++
		if got, err := c.count(ctx); err != nil || got != total {
			return fmt.Errorf("%d tools after a change, want %d: %w", got, total, err)
		}
	}
	mib, err := memory(p.cmd.Process.Pid, "VmRSS")
	if err != nil {
		return err
	}
	b.report.add("gateway 100 x 100", "RSS", "MiB", "mcptrack", mib)
	return nil
}

// startGateway starts a gateway over the servers, with more flags, and returns its endpoint once it has
// their tools.
func (b *bench) startGateway(ctx context.Context, servers map[string]any, more ...string) (*running, string, error) {
	file, err := b.writeConfig(servers)
	if err != nil {
		return nil, "", err
	}
	return startServer(ctx, append([]string{b.mcptrack, "gateway", "--config", file, "--addr", "127.0.0.1:0", "--wait", "60s"}, more...)...)
}

// startServer starts a program that prints "listening on URL", and returns the URL.
func startServer(ctx context.Context, argv ...string) (*running, string, error) {
	p, err := start(ctx, serverLimit, argv, true)
	if err != nil {
		return nil, "", err
	}
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			return nil, "", errors.Join(fmt.Errorf("%s: %w", argv[0], err), p.close())
		}
		if url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on "); ok {
			p.drained = make(chan struct{})
			go func() { // ends with the process
				defer close(p.drained)
				_, _ = io.Copy(io.Discard, p.out)
			}()
			return p, url, nil
		}
	}
}

// httpClient is a client of Streamable HTTP, protocol 2025-11-25, with as little of
// its own as can be.
type httpClient struct {
	url, session string
	token        string // "": none
	ids          int
}

func (c *httpClient) post(ctx context.Context, body string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	c.headers(q)
	q.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(q)
}

func (c *httpClient) headers(q *http.Request) {
	q.Header.Set("Accept", "application/json, text/event-stream")
	if c.token != "" {
		q.Header.Set("Authorization", "Bearer "+c.token)
	}
	if c.session != "" {
		q.Header.Set("Mcp-Session-Id", c.session)
		q.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
}

func (c *httpClient) initialize(ctx context.Context) error {
	p, err := c.post(ctx, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	if err != nil {
		return err
	}
	_, err = readAnswer(p)
	c.session = p.Header.Get("Mcp-Session-Id")
	if err != nil {
		return err
	}
	p, err = c.post(ctx, `{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if err != nil {
		return err
	}
	return p.Body.Close()
}

func (c *httpClient) ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	c.ids++
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": c.ids, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	p, err := c.post(ctx, string(body))
	if err != nil {
		return nil, err
	}
	return readAnswer(p)
}

// readAnswer reads the result out of a JSON or event stream answer.
func readAnswer(p *http.Response) (json.RawMessage, error) {
	defer p.Body.Close()
	body, err := io.ReadAll(p.Body)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(p.Header.Get("Content-Type"), "text/event-stream") {
		for line := range bytes.Lines(body) {
			if data, ok := bytes.CutPrefix(line, []byte("data:")); ok {
				body = bytes.TrimSpace(data)
			}
		}
	}
	var m struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(body, &m); err != nil || m.Result == nil {
		return nil, fmt.Errorf("status %d, %.200s", p.StatusCode, body)
	}
	return m.Result, nil
}

// count lists all tools.
func (c *httpClient) count(ctx context.Context) (n int, err error) {
	for params := map[string]any{}; ; {
		raw, err := c.ask(ctx, "tools/list", params)
		if err != nil {
			return n, err
		}
		var page struct {
			Tools      []struct{ Name string } `json:"tools"`
			NextCursor string                  `json:"nextCursor"`
		}
		if err := json.Unmarshal(raw, &page); err != nil {
			return n, err
		}
		n += len(page.Tools)
		if page.NextCursor == "" {
			return n, nil
		}
		params["cursor"] = page.NextCursor
	}
}

// listen opens the stream of notifications; news gets the time of every list_changed
// of tools, in wall clock nanoseconds.
func (c *httpClient) listen(ctx context.Context) (news <-chan int64, stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, c.url, nil)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	c.headers(q)
	q.Header.Set("Accept", "text/event-stream")
	p, err := http.DefaultClient.Do(q)
	if err != nil {
		cancel()
		return nil, nil, err
	}
	notified := make(chan int64, 1000) // more than there are changes
	var reading sync.WaitGroup
	reading.Go(func() {
		defer p.Body.Close()
		for lines := bufio.NewScanner(p.Body); lines.Scan(); {
			if strings.Contains(lines.Text(), "notifications/tools/list_changed") {
				notified <- time.Now().UnixNano()
			}
		}
	})
	return notified, func() { cancel(); reading.Wait() }, nil
}

const (
	hookSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	hookReceivers = 16 // ports of this machine, as connections to each are limited

	hookHost   = "127.0.0.1" // of all receivers, and of the dead endpoint
	hookTokens = 40          // clients, as subscriptions and streams of each are limited
)

func (b *bench) webhooks(ctx context.Context) error {
	for run := range b.runs {
		if run < max(1, b.runs/3) { // 1,000 subscriptions take longer than the deliveries
			if err := b.deliver(ctx, "webhooks 1000 x 10/s", 1000, 50, 10, false); err != nil {
				return err
			}
		}
		if run < b.seldom() {
			if err := b.streams(ctx, 1000, 3000, 600); err != nil {
				return err
			}
		}
		for _, dead := range []bool{false, true} {
			scenario := map[bool]string{false: "webhooks 100 x 10/s", true: "webhooks beside a dead one"}[dead]
			if err := b.deliver(ctx, scenario, 100, 50, 10, dead); err != nil {
				return err
			}
		}
	}
	b.report.atMost(500, "webhooks 1000 x 10/s", "p99")
	b.report.atMost(0, "webhooks 1000 x 10/s", "lost")
	b.report.times(1.2, "webhooks beside a dead one", "webhooks 100 x 10/s", "p99")
	b.report.atLeast(300_000, "event streams 1000", "deliveries")
	b.report.atMost(5, "event streams 1000", "poll of 500")
	return nil
}

// gatewayWithEvents starts a gateway before a load server that begins when the file
// "go" is there, and returns a client for each token.
func (b *bench) gatewayWithEvents(ctx context.Context, l *load) (*running, []*httpClient, error) {
	l.times, l.after = b.times(), filepath.Join(b.tmp, "go")
	_, _ = os.Remove(l.after), os.Remove(l.times)
	config, err := b.writeConfig(map[string]any{"blast": b.blastEntry(*l)})
	if err != nil {
		return nil, nil, err
	}
	var lines strings.Builder
	for i := range hookTokens {
		fmt.Fprintf(&lines, "client%02d token-%02d-0123456789abcdefghijk\n", i, i)
	}
	tokens := filepath.Join(b.tmp, "tokens")
	if err := os.WriteFile(tokens, []byte(lines.String()), 0o600); err != nil {
		return nil, nil, err
	}
	p, url, err := startServer(ctx, b.mcptrack, "--config", config, "gateway", "--addr", "127.0.0.1:0", "--wait", "60s", "--events",
		"--events-allow", "http://"+hookHost+":*", "--token-file", tokens, "--data-dir", b.dataDir())
	if err != nil {
		return nil, nil, err
	}
	var clients []*httpClient
	for i := range hookTokens {
		c := &httpClient{url: url, token: fmt.Sprintf("token-%02d-0123456789abcdefghijk", i)}
		if err := c.initialize(ctx); err != nil {
			return nil, nil, errors.Join(err, p.close())
		}
		clients = append(clients, c)
	}
	return p, clients, nil
}

// hookReceiver notes when the events of each subscription came.
type hookReceiver struct {
	at      [][]int64 // by subscription and event
	arrived atomic.Int64
}

func (v *hookReceiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	now := time.Now().UnixNano()
	body, _ := io.ReadAll(q.Body)
	n, err := strconv.Atoi(strings.TrimPrefix(q.URL.Path, "/h/"))
	_, rest, found := bytes.Cut(body, []byte(blastURI))
	if err != nil || !found || len(rest) < 6 || n >= len(v.at) {
		return
	}
	if i, err := strconv.Atoi(string(rest[:6])); err == nil && i < len(v.at[n]) && atomic.CompareAndSwapInt64(&v.at[n][i], 0, now) {
		v.arrived.Add(1)
	}
}

// deliver measures the time from an update of a server to the POST to each webhook.
func (b *bench) deliver(ctx context.Context, scenario string, subscriptions, count, rate int, dead bool) (err error) {
	l := load{resources: count, count: count, rate: rate}
	p, clients, err := b.gatewayWithEvents(ctx, &l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(p.close(), err) }()
	v := &hookReceiver{at: make([][]int64, subscriptions)}
	var hosts []string
	for range hookReceivers {
		ln, err := net.Listen("tcp", hookHost+":0")
		if err != nil {
			return err
		}
		s := &http.Server{Handler: v}
		go func() { _ = s.Serve(ln) }() // ends with Close
		defer s.Close()
		hosts = append(hosts, ln.Addr().String())
	}
	subscribe := func(c *httpClient, url string) error {
		_, err := c.ask(ctx, "events/subscribe", map[string]any{"name": "resource.updated", "delivery": map[string]any{"url": url, "secret": hookSecret}})
		return err
	}
	for n := range subscriptions {
		v.at[n] = make([]int64, count)
		if err := subscribe(clients[n%len(clients)], fmt.Sprintf("http://%s/h/%d", hosts[n%len(hosts)], n)); err != nil {
			return err
		}
	}
	if dead { // it accepts connections and never answers
		ln, err := net.Listen("tcp", hookHost+":0")
		if err != nil {
			return err
		}
		defer ln.Close()
		if err := subscribe(clients[0], "http://"+ln.Addr().String()+"/dead"); err != nil {
			return err
		}
	}
	if err := os.WriteFile(l.after, nil, 0o600); err != nil {
		return err
	}
	want := int64(subscriptions * count)
	for limit := time.Now().Add(time.Duration(count/rate)*time.Second + 30*time.Second); v.arrived.Load() < want && time.Now().Before(limit) && ctx.Err() == nil; {
		time.Sleep(20 * time.Millisecond)
	}
	sent, err := readTimes(l.times)
	if err != nil {
		return err
	}
	var delays []float64
	for _, of := range v.at {
		for i := range of {
			if at := atomic.LoadInt64(&of[i]); at != 0 && i < len(sent) {
				delays = append(delays, float64(at-sent[i])/1e6)
			}
		}
	}
	if len(delays) == 0 {
		return errors.New(scenario + ": nothing came")
	}
	b.report.percentiles(scenario, "", "ms", "mcptrack", delays)
	b.report.add(scenario, "lost", "", "mcptrack", float64(want-int64(len(delays))))
	return nil
}

// streams measures how many events a second reach many streams, and then how long a poll
// of 500 events takes.
func (b *bench) streams(ctx context.Context, streams, count, rate int) (err error) {
	const scenario = "event streams 1000"
	l := load{resources: count, count: count, rate: rate}
	p, clients, err := b.gatewayWithEvents(ctx, &l)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(p.close(), err) }()
	var start struct{ Cursor string }
	raw, err := clients[0].ask(ctx, "events/poll", map[string]any{"name": "resource.updated", "cursor": nil})
	if err != nil || json.Unmarshal(raw, &start) != nil {
		return fmt.Errorf("poll: %w: %s", err, raw)
	}
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	var came, first, last atomic.Int64
	for n := range streams {
		c := clients[n%len(clients)]
		r, err := c.post(ctx, fmt.Sprintf(`{"jsonrpc":"2.0","id":"s%d","method":"events/stream","params":{"name":"resource.updated"}}`, n))
		if err != nil {
			return err
		}
		reading.Go(func() {
			defer r.Body.Close()
			buf := make([]byte, 32<<10)
			mark := []byte(`"eventId"`)
			rest := 0 // of what was read before, as a mark may be cut
			for {
				got, err := r.Body.Read(buf[rest:])
				if n := bytes.Count(buf[:rest+got], mark); n > 0 {
					now := time.Now().UnixNano()
					first.CompareAndSwap(0, now)
					last.Store(now)
					came.Add(int64(n))
				}
				if err != nil {
					return
				}
				end := rest + got
				rest = min(len(mark)-1, end)
				copy(buf, buf[end-rest:end])
			}
		})
	}
	if err := os.WriteFile(l.after, nil, 0o600); err != nil {
		return err
	}
	want := int64(streams * (count + 1)) // the last says that it is done
	for limit := time.Now().Add(time.Duration(count/rate)*time.Second + 60*time.Second); came.Load() < want && time.Now().Before(limit) && ctx.Err() == nil; {
		time.Sleep(20 * time.Millisecond)
	}
	b.report.add(scenario, "deliveries", "/s", "mcptrack", float64(came.Load())/(float64(last.Load()-first.Load())/1e9))
	b.report.add(scenario, "lost", "", "mcptrack", float64(want-came.Load()))
	cancel()
	reading.Wait()
	for range 20 {
		began := time.Now()
		raw, err := clients[1].ask(context.WithoutCancel(ctx), "events/poll", map[string]any{"name": "resource.updated", "cursor": start.Cursor, "maxEvents": 500})
		if err != nil {
			return err
		}
		b.report.add(scenario, "poll of 500", "ms", "mcptrack", milliseconds(time.Since(began)))
		if n := bytes.Count(raw, []byte(`"eventId"`)); n != 500 {
			return fmt.Errorf("a poll has %d events", n)
		}
	}
	return nil
}
