package tracker_test

import (
	"context"
	"fmt"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// notes is a server in this process, for the examples. Without tracker.Options.Dial, the tracker
// connects to the servers of the config.
type notes struct {
	*sessiontest.Fake
	serving sync.WaitGroup
}

func newNotes() *notes {
	n := &notes{Fake: sessiontest.New()}
	n.SetQuietly("note:///plan", "write\ntest\n")
	n.SetList(catalog.Tools, map[string]any{"name": "count", "description": "Counts notes"})
	n.SetList(catalog.Prompts, map[string]any{"name": "summarize"})
	n.SetList(catalog.Templates, map[string]any{"uriTemplate": "note:///{name}", "name": "note"})
	return n
}

func (n *notes) dial(ctx context.Context, srv config.Server, opts session.Options) (*session.Session, error) {
	r, w, wait := n.Pipe()
	n.serving.Go(wait)
	return session.OverIO(ctx, r, w, srv, opts)
}

// config tracks the lists of the server, but no resource.
func (n *notes) config() *config.Config {
	srv := config.Stdio("notes", "notes-server")
	srv.TrackResources = false
	return &config.Config{Servers: []config.Server{srv}}
}

// Everything that a client does, and every change that concerns it, is an event with its own type.
// Switch on the payload.
func ExampleClient() {
	server := newNotes()
	t := tracker.New(tracker.Options{Dial: server.dial})
	t.Apply(server.config())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	_, events := t.Subscribe(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = t.Run(ctx) })

	client := t.Client("notes")
	for e := range events.Events() {
		switch p := e.Payload.(type) {
		case event.ServerState:
			if p.State == event.Ready {
				running.Go(func() { use(ctx, client) })
			}
		case event.ResourceContent:
			text, _ := p.Content.Text()
			fmt.Printf("content of %s: %q\n", e.ResourceURI, text)
			if p.Previous != nil { // it was read again because it changed
				server.SetList(catalog.Tools, map[string]any{"name": "count", "description": "Counts all notes"})
				server.NotifyListChanged(catalog.Tools)
			}
		case event.PromptContent:
			fmt.Printf("prompt %s with %v\n", p.Name, p.Prompt.Arguments)
		case event.ToolResult:
			fmt.Printf("tool %s: success %t\n", p.Name, p.Success)
		case event.SubscriptionsChanged:
			fmt.Printf("subscribed to %q\n", p.URIs)
			if len(p.URIs) > 0 {
				running.Go(func() {
					baselineOf(t, "notes")
					server.Set("note:///plan", "write\ntest\nrelease\n")
				})
			}
		case event.ResourceUpdated:
			fmt.Printf("updated: %s\n", e.ResourceURI)
		case event.ListChanged:
			fmt.Printf("%s changed: %s at %s\n", p.List, p.Details[0].Key, p.Details[0].Changes[0].Path)
			stop()
		}
	}
	running.Wait()
	server.serving.Wait()
	// Unordered output:
	// content of note:///plan: "write\ntest\n"
	// prompt summarize with map[style:short]
	// tool count: success true
	// subscribed to ["note:///plan"]
	// updated: note:///plan
	// content of note:///plan: "write\ntest\nrelease\n"
	// tools changed: count at /description
	// subscribed to []
}

// use makes the requests of a user who explores the server.
func use(ctx context.Context, client *tracker.Client) {
	_, err := client.ReadResource(ctx, "note:///plan")
	if err == nil {
		_, err = client.GetPrompt(ctx, "summarize", map[string]string{"style": "short"})
	}
	if err == nil {
		_, err = client.CallTool(ctx, "count", nil)
	}
	if err == nil && client.SupportsSubscriptions() {
		err = client.Subscribe(ctx, "note:///plan")
	}
	if err != nil {
		fmt.Println(err)
	}
}

// Show a cached result again without another request.
func ExampleClient_Cache() {
	server := newNotes()
	t := tracker.New(tracker.Options{Dial: server.dial})
	t.Apply(server.config())
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { _ = t.Run(ctx) })
	if _, err := t.Settled(ctx); err != nil {
		fmt.Println(err)
	}

	client := t.Client("notes")
	if _, err := client.ReadTemplate(ctx, "note:///{name}", map[string]string{"name": "plan"}); err != nil {
		fmt.Println(err)
	}
	kept, _ := client.Cache().Template("note:///{name}")
	text, _ := kept.Text()
	fmt.Printf("%s: %q\n", kept.URI, text)
	_, ok := client.Cache().Resource("note:///plan")
	fmt.Println("also cached by its URI:", ok)
	client.Cache().ClearAll()
	_, ok = client.Cache().Template("note:///{name}")
	fmt.Println("cached after clearing:", ok)

	stop()
	running.Wait()
	server.serving.Wait()
	// Output:
	// note:///plan: "write\ntest\n"
	// also cached by its URI: false
	// cached after clearing: false
}

// Print the changes of all servers' resources as diffs: as in mcptrack help embedding.
func Example_diffs() {
	server := newNotes()
	cfg := server.config() // or config.Load("config/mcp-servers.json", config.Options{})
	cfg.Servers[0].TrackResources = true
	ctx, stop := context.WithCancel(context.Background())
	defer stop()

	t := tracker.New(tracker.Options{Dial: server.dial, Texts: true})
	t.Apply(cfg)
	_, events := t.Subscribe(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = t.Run(ctx) })
	running.Go(func() {
		baselineOf(t, "notes")
		server.Set("note:///plan", "write\ntest\nrelease\n")
	})
	for e := range events.Events() {
		if u, ok := e.Payload.(event.ResourceUpdated); ok {
			fmt.Print(u.UnifiedDiff())
			stop()
		}
	}
	running.Wait()
	server.serving.Wait()
	// Output:
	// --- note:///plan
	// +++ note:///plan
	// @@ -1,2 +1,3 @@
	//  write
	//  test
	// +release
}
