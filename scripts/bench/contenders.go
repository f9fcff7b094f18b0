//go:build linux

package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// A load is what a subscriber is given to do.
type load struct {
	resources int    // of each server
	count     int    // notifications that one server is asked for, 0 for none
	rate      int    // per second, 0 for as fast as possible
	print     int    // 1: print every update, 0: only the last
	read      string // of ours: none or digest
	times     string // file of the times of sending
	after     string // file that the server waits for; "" for nothing
	servers   int    // how many load servers, 0 for one
}

// A contender is one of those measured side by side.
type contender struct {
	name    string
	program []string       // takes what client.mjs takes; nil: mcptrack, which has a config
	ready   string         // what a line says once all resources of one server are subscribed
	others  map[string]any // other servers that mcptrack watches, which are not measured
}

func (b *bench) ours() contender {
	return contender{name: "mcptrack", ready: `"subscription.active"`}
}

func (b *bench) bare() contender {
	return contender{name: "mcp-go", ready: "ready", program: []string{b.self, "bare"}}
}

func (b *bench) typescript() contender {
	return contender{name: "TypeScript", ready: "ready", program: []string{b.node(), filepath.Join(b.peers, "client.mjs")}}
}

func (b *bench) floor() contender {
	return contender{name: "floor", program: []string{b.self, "floor"}}
}

// lists returns the command that lists tools, resources and prompts of a stdio server.
func (b *bench) lists(c contender, server []string) ([]string, error) {
	if c.program != nil {
		return slices.Concat(c.program, []string{"list"}, server), nil
	}
	file, err := b.writeConfig(map[string]any{"server": map[string]any{"command": server[0], "args": server[1:]}})
	return []string{b.mcptrack(), "--config", file, "list", "--json"}, err
}

// watches returns the command that subscribes to all resources of a load.
func (b *bench) watches(c contender, l load) ([]string, error) {
	if c.program != nil {
		return slices.Concat(c.program, []string{"watch", strconv.Itoa(l.count), strconv.Itoa(l.rate), strconv.Itoa(l.print)}, b.blastArgv(l)), nil
	}
	servers := map[string]any{}
	maps.Copy(servers, c.others)
	for i := range max(1, l.servers) {
		servers[fmt.Sprintf("blast%03d", i)] = b.entry(l)
	}
	file, err := b.writeConfig(servers)
	return []string{b.mcptrack(), "--config", file, "watch", "--json"}, err
}

func (b *bench) node() string { return filepath.Join(b.peers, "node_modules", ".bin", "node") }

// everything returns the command of server-everything.
func (b *bench) everything() []string {
	return []string{b.node(), filepath.Join(b.peers, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js"), "stdio"}
}

// times is the file of the load server's send times.
func (b *bench) times() string { return filepath.Join(b.tmp, "times") }

func (b *bench) blastArgv(l load) []string {
	return []string{b.self, "blast", "-resources", strconv.Itoa(l.resources), "-times", l.times}
}

// entry returns the config entry of the load server, which starts to send when the client has
// connected.
func (b *bench) entry(l load) map[string]any {
	entry := map[string]any{"command": b.self, "args": b.blastArgv(l)[1:], "read": cmp.Or(l.read, "none"),
		"trackResources": true, "trackTools": false, "trackPrompts": false}
	if l.count > 0 {
		entry["onConnect"] = []any{map[string]any{"tool": "blast", "arguments": blastOptions{Count: l.count, Rate: l.rate, After: l.after}}}
	}
	return entry
}

func (b *bench) writeConfig(servers map[string]any) (string, error) {
	b.configs++
	file := filepath.Join(b.tmp, fmt.Sprintf("config-%d.json", b.configs))
	data, err := json.Marshal(map[string]any{"mcpServers": servers})
	return file, errors.Join(err, os.WriteFile(file, data, 0o600))
}

// subscribesInFlight is what makes the bare client fastest.
const subscribesInFlight = 16

// runBare is a minimal client built on mcp-go, the reference for mcptrack. It takes what
// testdata/peers/client.mjs takes, and does the same.
func runBare(args []string) error {
	var o blastOptions
	var print int
	watch := len(args) > 4 && args[0] == "watch"
	server := args[min(1, len(args)):]
	if watch {
		for i, number := range []*int{&o.Count, &o.Rate, &print} {
			*number, _ = strconv.Atoi(args[1+i])
		}
		server = args[4:]
	}
	if len(server) == 0 {
		return errors.New("usage: bench bare list SERVER… | watch COUNT RATE PRINT SERVER…")
	}
	ctx := context.Background()
	c := client.NewClient(transport.NewStdio(server[0], nil, server[1:]...), client.WithLegacyProtocolOnly())
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		uri, _ := n.Params.AdditionalFields["uri"].(string)
		if n.Method == "notifications/resources/updated" && (print > 0 || uri == blastDone) {
			fmt.Println(uri)
		}
	})
	if err := c.Start(ctx); err != nil {
		return err
	}
	var init mcp.InitializeRequest
	init.Params.ProtocolVersion = "2025-11-25"
	init.Params.ClientInfo = mcp.Implementation{Name: "bare", Version: "1"}
	if _, err := c.Initialize(ctx, init); err != nil {
		return err
	}
	resources, err := c.ListResources(ctx, mcp.ListResourcesRequest{})
	if err != nil {
		return err
	}
	if watch {
		return bareWatch(ctx, c, resources.Resources, o)
	}
	tools, err1 := c.ListTools(ctx, mcp.ListToolsRequest{})
	prompts, err2 := c.ListPrompts(ctx, mcp.ListPromptsRequest{})
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	fmt.Println(len(tools.Tools), len(resources.Resources), len(prompts.Prompts))
	return c.Close()
}

// bareWatch runs until it is killed.
func bareWatch(ctx context.Context, c *client.Client, resources []mcp.Resource, o blastOptions) error {
	slots := make(chan struct{}, subscribesInFlight)
	var wg sync.WaitGroup
	failed := make([]error, len(resources))
	for i, r := range resources {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			var req mcp.SubscribeRequest
			req.Params.URI = r.URI
			failed[i] = c.Subscribe(ctx, req)
		})
	}
	wg.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	fmt.Println("ready")
	if o.Count > 0 {
		var call mcp.CallToolRequest
		call.Params.Name, call.Params.Arguments = "blast", o
		if _, err := c.CallTool(ctx, call); err != nil {
			return err
		}
	}
	select {}
}

// runFloor lists tools, resources and prompts with raw lines of text: no client can be faster.
func runFloor(args []string) error {
	if len(args) < 2 {
		return errors.New("usage: bench floor list SERVER…")
	}
	p, err := new(bench).open(context.Background(), args[1:])
	if err != nil {
		return err
	}
	_, err1 := p.ask("resources/list", struct{}{})
	_, err2 := p.ask("prompts/list", struct{}{})
	fmt.Println("done")
	return errors.Join(err1, err2, p.close())
}
