package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
)

// asking is a legacy server with a process for each connection. Its tool "ask" sends the request
// in its arguments to the client and returns the answer: after 10 s if the method begins with "late ",
// and it asks nothing if that is "", "log" (which logs 100 messages) or "sleep" (for 10 s). Clients with sampling
// see one more tool.
// If roots is set, it asks for roots when a session begins, and when they have changed.
type asking struct {
	roots bool
	mu    sync.Mutex
	conns []*askingConn
}

type askingConn struct {
	roots bool
	in    *bufio.Reader
	out   io.WriteCloser

	mu           sync.Mutex
	capabilities string
	level        string
	levelPause   time.Duration // before it applies a level
	rootsChanged int
	told         []string // all answers of the client
	ended        bool
	last         int
	asked        map[int]chan json.RawMessage
}

func (a *asking) Dial(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
	r, toClient := io.Pipe()
	fromClient, w := io.Pipe()
	c := &askingConn{roots: a.roots, in: bufio.NewReader(fromClient), out: toClient, asked: map[int]chan json.RawMessage{}}
	a.mu.Lock()
	a.conns = append(a.conns, c)
	a.mu.Unlock()
	go c.run()
	return session.OverIO(ctx, r, w, srv, opts)
}

// of returns the connections that declared a capability, and how many of them are open.
func (a *asking) of(capability string) (conns []*askingConn, open int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range a.conns {
		c.mu.Lock()
		if strings.Contains(c.capabilities, capability) {
			conns = append(conns, c)
			if !c.ended {
				open++
			}
		}
		c.mu.Unlock()
	}
	return conns, open
}

func (c *askingConn) send(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, _ = fmt.Fprintf(c.out, format+"\n", args...)
}

func (c *askingConn) run() {
	defer c.out.Close()
	for {
		line, err := c.in.ReadBytes('\n')
		if err != nil {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.ended = true
			for _, answer := range c.asked {
				close(answer)
			}
			return
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Capabilities json.RawMessage
				Level        string
				Arguments    struct{ Method, Params, Log string }
			}
			Result, Error json.RawMessage
		}
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		switch m.Method {
		case "":
			var id int
			_ = json.Unmarshal(m.ID, &id)
			c.mu.Lock()
			answer := c.asked[id]
			delete(c.asked, id)
			c.told = append(c.told, string(m.Result)+string(m.Error))
			c.mu.Unlock()
			if answer != nil {
				answer <- slices.Concat(m.Result, m.Error)
			}
		case "initialize":
			c.mu.Lock()
			c.capabilities = string(m.Params.Capabilities)
			c.mu.Unlock()
			c.send(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"logging":{}},"serverInfo":{"name":"asking","version":"1"}}}`, m.ID)
		case "tools/list":
			if strings.Contains(c.capabilities, "sampling") {
				c.send(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"ask","inputSchema":{"type":"object"}},{"name":"sample","inputSchema":{"type":"object"}}]}}`, m.ID)
				continue
			}
			c.send(`{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"ask","inputSchema":{"type":"object"}}]}}`, m.ID)
		case "logging/setLevel":
			time.Sleep(c.levelPause)
			c.mu.Lock()
			c.level = m.Params.Level
			c.mu.Unlock()
			c.send(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
		case "notifications/initialized", "notifications/roots/list_changed":
			if m.Method != "notifications/initialized" {
				c.mu.Lock()
				c.rootsChanged++
				c.mu.Unlock()
			}
			if c.roots {
				c.send(`{"jsonrpc":"2.0","id":"roots","method":"roots/list"}`)
			}
		case "tools/call":
			respond := func(after time.Duration) {
				time.Sleep(after)
				c.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[]}}`, m.ID)
			}
			switch m.Params.Arguments.Method {
			case "":
				respond(0)
				continue
			case "sleep":
				go respond(10 * time.Second)
				continue
			}
			if log := m.Params.Arguments.Log; log != "" {
				c.send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":%q}}`, log)
			}
			if m.Params.Arguments.Method == "log" {
				for range 99 {
					c.send(`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":""}}`)
				}
				respond(0)
				continue
			}
			answer := make(chan json.RawMessage, 1)
			c.mu.Lock()
			c.last++
			id := c.last
			c.asked[id] = answer
			c.mu.Unlock()
			method, late := strings.CutPrefix(m.Params.Arguments.Method, "late ")
			go func() {
				if late {
					time.Sleep(10 * time.Second)
				}
				c.send(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`, id, method, m.Params.Arguments.Params)
				if got, ok := <-answer; ok {
					c.send(`{"jsonrpc":"2.0","id":%s,"result":{"content":[],"structuredContent":%s}}`, m.ID, got)
				}
			}()
		default:
			if m.ID != nil {
				c.send(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
			}
		}
	}
}
