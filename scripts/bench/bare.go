//go:build linux

package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"sync"

	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// subscribesInFlight is what makes the bare client fastest.
const subscribesInFlight = 16

// runBare is what a good programmer writes with mcp-go in an hour: the measure
// for ours. "bare list -- SERVER…" lists tools, resources and prompts;
// "bare watch -- SERVER…" subscribes to all resources, says "ready", asks for
// notifications and stays until it is killed.
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
