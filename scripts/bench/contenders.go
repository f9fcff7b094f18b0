//go:build linux

package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// A load is what a subscriber is given to do.
type load struct {
	servers   int // how many load servers
	resources int // of each
	count     int // notifications that one server is asked for, 0 for none
	rate      int // per second, 0 for as fast as possible
	each      bool
	read      string // of ours: none or digest
	times     string // file of the times of sending
	after     string // file that they wait for; "" for nothing
}

// A contender is one of those measured side by side.
type contender struct {
	name string

	// list returns the commands to run, one after another, for tools, resources
	// and prompts of a stdio server. nil: does not take part.
	list func(server []string) ([][]string, error)

	// watch returns the command that subscribes to all resources of the load.
	watch func(l load) ([]string, error)

	// ready is what a line says once all resources of one server are subscribed.
	ready string

	// slow says that a list takes seconds, so that it is measured fewer times.
	slow bool
}

// times is the file of the load server's send times.
func (b *bench) times() string { return filepath.Join(b.tmp, "times") }

func (b *bench) blastArgv(l load) []string {
	return []string{b.self, "blast", "-resources", strconv.Itoa(l.resources), "-times", l.times}
}

// blastEntry returns the config entry of the load server, which starts to send when the client has
// connected.
func (b *bench) blastEntry(l load) map[string]any {
	entry := map[string]any{"command": b.self, "args": b.blastArgv(l)[1:], "read": cmp.Or(l.read, "none"),
		"trackResources": true, "trackTools": false, "trackPrompts": false}
	if l.count > 0 {
		entry["onConnect"] = []any{map[string]any{"tool": "blast", "arguments": blastOptions{Count: l.count, Rate: l.rate, After: l.after}}}
	}
	return entry
}

// ours runs the program under test with a config made for the occasion.
func (b *bench) ours() contender {
	return contender{
		name: "mcptrack", ready: `"subscription.active"`,
		list: func(server []string) ([][]string, error) {
			file, err := b.writeConfig(map[string]any{"server": map[string]any{"command": server[0], "args": server[1:]}})
			return [][]string{{b.mcptrack, "--config", file, "list", "--json"}}, err
		},
		watch: func(l load) ([]string, error) {
			servers := map[string]any{}
			for i := range l.servers {
				servers[fmt.Sprintf("blast%03d", i)] = b.blastEntry(l)
			}
			file, err := b.writeConfig(servers)
			return []string{b.mcptrack, "--config", file, "watch", "--json"}, err
		},
	}
}

func (b *bench) bare() contender {
	return contender{
		name: "mcp-go", ready: "ready",
		list: func(server []string) ([][]string, error) {
			return [][]string{append([]string{b.self, "bare", "list", "--"}, server...)}, nil
		},
		watch: func(l load) ([]string, error) {
			argv := []string{b.self, "bare", "watch", "-count", strconv.Itoa(l.count), "-rate", strconv.Itoa(l.rate)}
			if l.each {
				argv = append(argv, "-print")
			}
			return append(append(argv, "--"), b.blastArgv(l)...), nil
		},
	}
}

func (b *bench) typescript() contender {
	script := filepath.Join(b.peers, "client.mjs")
	return contender{
		name: "TypeScript", ready: "ready",
		list: func(server []string) ([][]string, error) {
			return [][]string{append([]string{b.node, script, "list"}, server...)}, nil
		},
		watch: func(l load) ([]string, error) {
			each := "0"
			if l.each {
				each = "1"
			}
			return append([]string{b.node, script, "watch", strconv.Itoa(l.count), strconv.Itoa(l.rate), each}, b.blastArgv(l)...), nil
		},
	}
}

// inspector needs three runs, as it lists one kind per run.
func (b *bench) inspector() contender {
	script := filepath.Join(b.peers, "node_modules", "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	return contender{name: "Inspector", slow: true, list: func(server []string) ([][]string, error) {
		var runs [][]string
		for _, method := range []string{"tools/list", "resources/list", "prompts/list"} {
			run := append([]string{b.node, script, "--cli"}, server...)
			runs = append(runs, append(run, "--method", method))
		}
		return runs, nil
	}}
}

func (b *bench) floor() contender {
	return contender{name: "floor", list: func(server []string) ([][]string, error) {
		return [][]string{append([]string{b.self, "floor"}, server...)}, nil
	}}
}

func (b *bench) writeConfig(servers map[string]any) (string, error) {
	data, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp(b.tmp, "mcp-servers-*.json")
	if err != nil {
		return "", err
	}
	_, err = file.Write(data)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	return file.Name(), err
}

// subscribesInFlight is what makes the bare client fastest.
const subscribesInFlight = 16

// runBare is a minimal client built on mcp-go, the reference for mcptrack. "bare list -- SERVER…"
// lists tools, resources and prompts; "bare watch -- SERVER…" subscribes to all resources, prints
// "ready", requests notifications and runs until it is killed.
func runBare(args []string) error {
	if len(args) == 0 {
		return errors.New("bare: list or watch?")
	}
	flags := flag.NewFlagSet("bare", flag.ContinueOnError)
	var o blastOptions
	flags.IntVar(&o.Count, "count", 0, "notifications to ask for")
	flags.IntVar(&o.Rate, "rate", 0, "per second, 0 for as fast as possible")
	each := flags.Bool("print", false, "print every update and not only the last")
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	server := flags.Args()
	if len(server) == 0 {
		return errors.New("bare: no server")
	}
	ctx := context.Background()
	c := client.NewClient(transport.NewStdio(server[0], nil, server[1:]...), client.WithLegacyProtocolOnly())
	c.OnNotification(func(n mcp.JSONRPCNotification) {
		uri, _ := n.Params.AdditionalFields["uri"].(string)
		if n.Method == "notifications/resources/updated" && (*each || uri == blastDone) {
			fmt.Fprintln(os.Stdout, uri)
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
	if args[0] == "list" {
		return errors.Join(bareList(ctx, c), c.Close())
	}
	return bareWatch(ctx, c, o)
}

func bareList(ctx context.Context, c *client.Client) error {
	tools, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		return err
	}
	resources, err := c.ListResources(ctx, mcp.ListResourcesRequest{})
	if err != nil {
		return err
	}
	prompts, err := c.ListPrompts(ctx, mcp.ListPromptsRequest{})
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stdout, len(tools.Tools), len(resources.Resources), len(prompts.Prompts))
	return nil
}

func bareWatch(ctx context.Context, c *client.Client, o blastOptions) error {
	resources, err := c.ListResources(ctx, mcp.ListResourcesRequest{})
	if err != nil {
		return err
	}
	slots := make(chan struct{}, subscribesInFlight)
	var wg sync.WaitGroup
	failed := make([]error, len(resources.Resources))
	for i, r := range resources.Resources {
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
	fmt.Fprintln(os.Stdout, "ready")
	if o.Count > 0 {
		var call mcp.CallToolRequest
		call.Params.Name = "blast"
		call.Params.Arguments = o
		if _, err := c.CallTool(ctx, call); err != nil {
			return err
		}
	}
	select {} // killed by the harness
}

// runFloor lists tools, resources and prompts with raw lines of text: no client can be faster.
func runFloor(server []string) error {
	if len(server) == 0 {
		return errors.New("floor: no server")
	}
	cmd := exec.Command(server[0], server[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	answers := bufio.NewReaderSize(out, 256<<10)
	_, err = io.WriteString(in, `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"floor","version":"1"}}}`+"\n")
	if err == nil {
		err = awaitAnswers(answers, 1)
	}
	if err == nil {
		_, err = io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+
			`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`+"\n"+
			`{"jsonrpc":"2.0","id":2,"method":"resources/list"}`+"\n"+
			`{"jsonrpc":"2.0","id":3,"method":"prompts/list"}`+"\n")
	}
	if err == nil {
		err = awaitAnswers(answers, 3)
	}
	in.Close()
	late := time.AfterFunc(100*time.Millisecond, func() { _ = cmd.Process.Signal(syscall.SIGTERM) })
	defer late.Stop()
	if err != nil {
		_ = cmd.Process.Kill()
	}
	_, _ = io.Copy(io.Discard, answers)
	// The exit code of the server does not matter.
	if werr := cmd.Wait(); !isExit(werr) {
		err = errors.Join(err, werr)
	}
	fmt.Fprintln(os.Stdout, "done")
	return err
}

func isExit(err error) bool {
	var exit *exec.ExitError
	return err == nil || errors.As(err, &exit)
}

func awaitAnswers(in *bufio.Reader, n int) error {
	for n > 0 {
		line, err := in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("read answer: %w", err)
		}
		if strings.Contains(line, `"error":`) {
			return fmt.Errorf("server answered %s", line)
		}
		if strings.Contains(line, `"id":`) {
			n--
		}
	}
	return nil
}

// runTiny is a native server that starts fast, so that the client dominates a one-shot run: 10 tools,
// 100 resources and 5 prompts on stdio.
func runTiny() error {
	s := server.NewMCPServer("tiny", "1", server.WithToolCapabilities(false),
		server.WithResourceCapabilities(false, false), server.WithPromptCapabilities(false))
	for i := range 10 {
		s.AddTool(mcp.NewTool(fmt.Sprintf("tool%d", i), mcp.WithDescription("A tool"), mcp.WithString("text", mcp.Required())),
			func(context.Context, mcp.CallToolRequest) (*mcp.CallToolResult, error) {
				return mcp.NewToolResultText("ok"), nil
			})
	}
	for i := range 100 {
		uri := fmt.Sprintf("tiny://r/%03d", i)
		s.AddResource(mcp.NewResource(uri, fmt.Sprintf("r%03d", i), mcp.WithMIMEType("text/plain")),
			func(context.Context, mcp.ReadResourceRequest) ([]mcp.ResourceContents, error) {
				return []mcp.ResourceContents{mcp.TextResourceContents{URI: uri, MIMEType: "text/plain", Text: "text"}}, nil
			})
	}
	for i := range 5 {
		s.AddPrompt(mcp.NewPrompt(fmt.Sprintf("prompt%d", i)),
			func(context.Context, mcp.GetPromptRequest) (*mcp.GetPromptResult, error) {
				return mcp.NewGetPromptResult("", nil), nil
			})
	}
	return server.ServeStdio(s)
}
