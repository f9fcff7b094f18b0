//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// gatewayRestarts: calls through a gateway while the HTTP server behind it is away for
// 0.3 s, once and three times in a row. Every call that fails is lost, unless the server
// may have begun it: those must not be repeated.
func gatewayRestarts(o options, report *report, name string) error {
	for _, w := range []way{{"http", "legacy"}, {"http", "modern"}} {
		st, err := newStand(w, "docs", "", newOracle())
		if err != nil {
			return err
		}
		g, err := startGateway(o, st)
		if err != nil {
			return err
		}
		for _, times := range []int{1, 3} {
			r := result{rounds: 1}
			var calling sync.WaitGroup
			var mu sync.Mutex
			began := time.Now()
			calling.Go(func() {
				for range times {
					st.die()
					time.Sleep(300 * time.Millisecond)
					if err := st.live(); err != nil {
						report.note("%v", err)
					}
					time.Sleep(200 * time.Millisecond)
				}
			})
			for i := range 20 {
				time.Sleep(50 * time.Millisecond)
				calling.Go(func() {
					sent := time.Now()
					err := g.call(fmt.Sprint(i))
					mu.Lock()
					defer mu.Unlock()
					r.slowest = max(r.slowest, time.Since(sent))
					if err != nil && !strings.Contains(err.Error(), "may have been processed") {
						r.lost++
						report.note("gateway, %s, %d restarts, call %d after %v, at %v: %v", w, times, i, time.Since(sent).Round(time.Millisecond), sent.Sub(began).Round(time.Millisecond), err)
					}
				})
			}
			calling.Wait()
			report.row(fmt.Sprintf("%s, %d times", name, times), w.String(), r)
			time.Sleep(3 * time.Second)
		}
		_ = g.cmd.Process.Signal(syscall.SIGTERM)
		_ = g.cmd.Wait()
		st.close()
	}
	return nil
}

// gateway is a running gateway and a client of it.
type gateway struct {
	cmd     *exec.Cmd
	url     string
	session string
	serial  atomic.Int64 // of the ids of requests
}

func startGateway(o options, st *stand) (*gateway, error) {
	dir, err := os.MkdirTemp(o.dir, "gateway-")
	if err != nil {
		return nil, err
	}
	file := filepath.Join(dir, "mcp-servers.json")
	if err := os.WriteFile(file, []byte(`{"mcpServers": {`+st.entry()+`}}`), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		return nil, err
	}
	addr := freeAddr()
	g := &gateway{url: "http://" + addr + "/mcp", cmd: exec.Command(o.bin, "gateway", "--config", file, "--addr", addr)}
	g.cmd.Stderr = log
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		if err = g.connect(); err == nil {
			if err = g.call("first"); err == nil {
				return g, nil
			}
		}
		if time.Now().After(end) {
			return nil, fmt.Errorf("the gateway does not work: %w", err)
		}
	}
}

func (g *gateway) connect() error {
	_, err := g.ask("initialize", map[string]any{"protocolVersion": "2025-11-25", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "faults", "version": "1"}})
	return err
}

// call calls the server's tool, which has to repeat the argument.
func (g *gateway) call(arg string) error {
	answer, err := g.ask("tools/call", map[string]any{"name": "echo", "arguments": map[string]any{"say": arg}})
	if err == nil && !bytes.Contains(answer, []byte(arg)) {
		err = fmt.Errorf("answered %s", answer)
	}
	return err
}

// ask makes a request and returns the result.
func (g *gateway) ask(method string, params any) (json.RawMessage, error) {
	id := g.serial.Add(1)
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
	if err != nil {
		return nil, err
	}
	q, err := http.NewRequest(http.MethodPost, g.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("Accept", "application/json, text/event-stream")
	if g.session != "" {
		q.Header.Set("Mcp-Session-Id", g.session)
		q.Header.Set("Mcp-Protocol-Version", "2025-11-25")
	}
	client := &http.Client{Timeout: 20 * time.Second}
	p, err := client.Do(q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = p.Body.Close() }()
	if method == "initialize" {
		g.session = p.Header.Get("Mcp-Session-Id")
	}
	raw, err := io.ReadAll(p.Body)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(p.Header.Get("Content-Type"), "text/event-stream") {
		for lines := bufio.NewScanner(bytes.NewReader(raw)); lines.Scan(); {
			if data, ok := strings.CutPrefix(lines.Text(), "data:"); ok && strings.Contains(data, fmt.Sprintf(`"id":%d`, id)) {
				raw = []byte(data)
			}
		}
	}
	var answer struct {
		Result json.RawMessage
		Error  json.RawMessage
	}
	if err := json.Unmarshal(raw, &answer); err != nil {
		return nil, fmt.Errorf("HTTP status %d: %.200s", p.StatusCode, raw)
	}
	if answer.Error != nil || bytes.Contains(answer.Result, []byte(`"isError":true`)) {
		return nil, fmt.Errorf("%s%s", answer.Error, answer.Result)
	}
	return answer.Result, nil
}
