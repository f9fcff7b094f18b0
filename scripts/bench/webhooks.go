//go:build linux

package main

import (
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
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// webhookBench measures MCP Events served by a gateway: webhooks, streams and polls.
type webhookBench struct{ *bench }

const (
	hookSecret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	hookReceivers = 16 // ports of this machine, as connections to each are limited

	hookHost   = "127.0.0.1" // of all receivers, and of the dead endpoint
	hookTokens = 40          // clients, as subscriptions and streams of each are limited
)

func (b webhookBench) webhooks(ctx context.Context) error {
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
func (b webhookBench) gatewayWithEvents(ctx context.Context, l *load) (*running, []*httpClient, error) {
	l.times, l.after = filepath.Join(b.tmp, "times"), filepath.Join(b.tmp, "go")
	_, _ = os.Remove(l.after), os.Remove(l.times)
	entry := map[string]any{"command": b.self, "args": b.blastArgv(*l)[1:], "read": "none", "trackResources": true, "trackTools": false, "trackPrompts": false,
		"onConnect": []any{map[string]any{"tool": "blast", "arguments": blastOptions{Count: l.count, Rate: l.rate, After: l.after}}}}
	config, err := b.writeConfig(map[string]any{"blast": entry})
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
	p, url, err := announced(ctx, b.mcptrack, "--config", config, "gateway", "--addr", "127.0.0.1:0", "--wait", "60s", "--events",
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
func (b webhookBench) deliver(ctx context.Context, scenario string, subscriptions, count, rate int, dead bool) (err error) {
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
	slices.Sort(delays)
	b.report.add(scenario, "p50", "ms", "mcptrack", delays[len(delays)/2])
	b.report.add(scenario, "p99", "ms", "mcptrack", delays[len(delays)*99/100])
	b.report.add(scenario, "lost", "", "mcptrack", float64(want-int64(len(delays))))
	return nil
}

// streams measures how many events a second reach many streams, and then how long a poll
// of 500 events takes.
func (b webhookBench) streams(ctx context.Context, streams, count, rate int) (err error) {
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
