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
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

const (
	manyServers = 100
	manyTools   = 100 // of each
	manyCalls   = 3000
)

// gatewayBench measures mcptrack gateway.
type gatewayBench struct{ *bench }

// gateway measures what a gateway adds to a tool call, both over HTTP on this
// machine, and how long 10,000 tools of 100 servers take to be listed and refreshed.
func (b gatewayBench) gateway(ctx context.Context) error {
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
func (b gatewayBench) gatewayCalls(ctx context.Context) error {
	server, upstream, err := announced(ctx, b.self, "many", "10", "http")
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
	for i := range took {
		slices.Sort(took[i])
	}
	p50, p99 := manyCalls/2, manyCalls*99/100
	b.report.add("gateway call", "p50", "ms", "direct", took[0][p50])
	b.report.add("gateway call", "p99", "ms", "direct", took[0][p99])
	b.report.add("gateway call", "p50", "ms", "mcptrack", took[1][p50])
	b.report.add("gateway call", "p99", "ms", "mcptrack", took[1][p99])
	b.report.add("gateway call", "added, p50", "ms", "mcptrack", took[1][p50]-took[0][p50])
	b.report.add("gateway call", "added, p99", "ms", "mcptrack", took[1][p99]-took[0][p99])
	return nil
}

func (b gatewayBench) gatewayLists(ctx context.Context) error {
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

// startGateway starts a gateway over the servers and returns its endpoint once it
// has their tools.
func (b gatewayBench) startGateway(ctx context.Context, servers map[string]any) (*running, string, error) {
	data, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		return nil, "", err
	}
	file := filepath.Join(b.tmp, "gateway.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		return nil, "", err
	}
	return announced(ctx, b.mcptrack, "gateway", "--config", file, "--addr", "127.0.0.1:0", "--wait", "60s")
}

// announced starts a server that says "listening on URL" when it is ready.
func announced(ctx context.Context, argv ...string) (*running, string, error) {
	p, err := startBoth(ctx, serverLimit, argv)
	if err != nil {
		return nil, "", err
	}
	for {
		line, err := p.out.ReadString('\n')
		if err != nil {
			return nil, "", errors.Join(fmt.Errorf("%s: %w", argv[0], err), p.close())
		}
		if url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on "); ok {
			go func() { _, _ = io.Copy(io.Discard, p.out) }() // ends with the process
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
