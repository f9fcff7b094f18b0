//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	feedClients = 1000
	feedCount   = 500
	feedRate    = 100 // a second
)

// feed measures serve-sse with durability always: a server notifies mcptrack of changes, mcptrack
// stores them and sends them to all clients. Latency is from the sending server to the client's
// read; server, mcptrack and clients share this machine. How fast it can be is a benchmark in one process.
func (b *bench) feed(ctx context.Context) error {
	for range b.runs {
		if err := b.fanOut(ctx); err != nil {
			return err
		}
	}
	return b.benchmark(ctx, "feed", "^BenchmarkFanOut$/^1000$")
}

func (b *bench) fanOut(ctx context.Context) error {
	const scenario = "feed 1000 x 100/s"
	dir, err := os.MkdirTemp(b.tmp, "data")
	if err != nil {
		return err
	}
	begin := filepath.Join(dir, "begin")
	file, err := b.writeConfig(map[string]any{"blast": b.entry(load{resources: feedCount, count: feedCount, rate: feedRate, times: b.times(), after: begin})})
	if err != nil {
		return err
	}
	argv := []string{b.mcptrack(), "--config", file, "serve-sse", "--addr", "127.0.0.1:0",
		"--data-dir", filepath.Join(dir, "log")}
	return b.using(ctx, true, argv, func(p *process) error {
		line, err := p.await("listening on ", 1)
		if err != nil {
			return err
		}
		_, url, _ := strings.Cut(strings.TrimSpace(string(line)), "listening on ")
		ctx, cancel := context.WithTimeout(ctx, time.Minute) // what is not received in time is lost
		defer cancel()                                       // before p ends, which waits for clients
		streams, arrived := make([]*lines, feedClients), make([][]int64, feedClients)
		empty, err1 := memory(p.cmd.Process.Pid, "status", "VmRSS")
		for i := range streams {
			if streams[i], err = listen(ctx, url); err != nil {
				return fmt.Errorf("client %d: %w", i, err)
			}
		}
		full, err2 := memory(p.cmd.Process.Pid, "status", "VmRSS")
		if err := errors.Join(err1, err2, os.WriteFile(begin, nil, 0o600)); err != nil {
			return err
		}
		b.report.add(scenario, "RSS per idle client", "KiB", "mcptrack", (full-empty)*1024/feedClients)
		var reading sync.WaitGroup
		for i, stream := range streams {
			reading.Go(func() { arrived[i] = arrivals(stream, feedCount) })
		}
		reading.Wait()
		return b.addDelays(scenario, "mcptrack", arrived)
	})
}

// listen connects a client and waits for its first frame, a checkpoint. Its stream ends with the context.
func listen(ctx context.Context, url string) (*lines, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/events?type=resource.updated", nil)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		return nil, err
	}
	if answer.StatusCode != http.StatusOK {
		return nil, errors.Join(errors.New(answer.Status), answer.Body.Close())
	}
	stream := newLines(answer.Body, 4<<10)
	for {
		if line, err := stream.next(); err != nil || bytes.HasPrefix(line, []byte("id: ")) {
			return stream, err
		}
	}
}
