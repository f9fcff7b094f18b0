package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/printable"
	core "github.com/mcptrack/mcptrack/core/status"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/remote"
	"github.com/mcptrack/mcptrack/output/table"
	"github.com/mcptrack/mcptrack/output/webhook"
)

func newStatus(env *cli.Env, g *cli.Globals) *cobra.Command {
	var from cli.RemoteFlags
	var use cli.DaemonUse
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "status [URL]",
		Short: "Show the status of a running serve-sse",
		Long: `Shows the status of the serve-sse, or gateway with --events, at URL or --url, of every
server that it follows, and of its hooks and webhooks. Without a URL it shows the servers of a
running daemon that follows the same config, else the serve-sse at
http://127.0.0.1:8722.

With -o template=... the template is run once for each server; -o name prints their ids.`,
		Example: `  mcptrack status
  mcptrack status https://mcp.example:8722 --token-file token
  mcptrack status --json | jq '.servers[] | select(.state != "Ready")'`,
		Args: cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := from.TakeURL(args, ""); err != nil {
				return err
			}
			if timeout <= 0 {
				return cli.Usage("--timeout must be positive")
			}
			ctx, cancel := context.WithTimeoutCause(cmd.Context(), timeout, cli.ErrTimeout)
			defer cancel()
			if from.Named() {
				use.Own = "a serve-sse is named"
			}
			asking, daemon := g.OpenDaemon(ctx, env, g.Logger(env), use)
			if daemon != nil {
				defer daemon.Close()
				return runStatus(asking, env, g, daemon.Client())
			}
			from.URL = cmp.Or(from.URL, cli.DefaultServeURL)
			client, err := from.Client(env)
			if err != nil {
				return err
			}
			return runStatus(ctx, env, g, client)
		},
	}
	from.Add(cmd)
	use.AddVerbose(cmd)
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "`DURATION` that the whole command may take")
	return cmd
}

// statusReport is the document that status --json prints.
type statusReport struct {
	Status  json.RawMessage   `json:"status"`
	Servers []json.RawMessage `json:"servers"`
}

func runStatus(ctx context.Context, env *cli.Env, g *cli.Globals, client remote.Client) error {
	var r statusReport
	if err := client.Get(ctx, []string{"api", "status"}, nil, &r.Status); err != nil {
		return cli.RemoteFailure(ctx, err, "token-file")
	}
	if err := client.Get(ctx, []string{"api", "servers"}, nil, &r.Servers); err != nil {
		return cli.RemoteFailure(ctx, err, "token-file")
	}
	var rows []core.Summary
	var names []string
	for _, raw := range r.Servers {
		var row core.Summary
		if err := json.Unmarshal(raw, &row); err != nil {
			return fmt.Errorf("malformed list of servers: %w", err)
		}
		rows, names = append(rows, row), append(names, row.ID)
	}
	if g.Format.Template != nil { // run for each server, as with list
		return document.Write(env.Out, g.Format, r.Servers)
	}
	return g.Write(env.Out, names, r, func() error { return writeStatus(env, g.Tables(env), r.Status, rows) })
}

// writeStatus writes the human-readable tables.
func writeStatus(env *cli.Env, tables table.Options, status json.RawMessage, servers []core.Summary) error {
	var shared struct {
		Process    string
		Unfollowed []string
		Waiting    string
		Unstored   string
		Hooks      []hook.Status
		Webhooks   []webhook.EndpointStatus
		Deliveries []webhook.Deliverer `json:"webhookDeliveries"`
	}
	if err := json.Unmarshal(status, &shared); err != nil {
		return fmt.Errorf("malformed status: %w", err)
	}
	if shared.Unstored != "" {
		fmt.Fprintf(env.Err, "%s\n", printable.Line(shared.Unstored, 500))
	}
	if shared.Waiting != "" {
		fmt.Fprintf(env.Err, "waiting for leases: %s\n", printable.Line(shared.Waiting, 300))
	}
	if len(shared.Unfollowed) > 0 {
		fmt.Fprintf(env.Err, "no process follows %s\n", cli.Join(shared.Unfollowed, 10))
	}
	header := []string{"Server", "State", "Since", "Protocol", "Mode", "Resources", "Updates", "Failures"}
	if shared.Process != "" {
		header = append(header, "Followed by")
	}
	var rows [][]string
	for _, s := range servers {
		since, _ := time.Parse(time.RFC3339, s.Since) // empty if it is unknown
		row := []string{s.ID, s.State.Words(), env.Time(since), s.ProtocolVersion, string(s.Mode), fmt.Sprint(s.Resources), fmt.Sprint(s.Updates), fmt.Sprint(s.Failures), s.FollowedBy}
		rows = append(rows, append(row[:len(header):len(header)], s.Error))
	}
	header = append(header, "Error")
	if tables.Narrow() { // -o wide still shows the protocol and the mode
		header = slices.Delete(header, 3, 5)
		for i := range rows {
			rows[i] = slices.Delete(rows[i], 3, 5)
		}
	}
	if err := tables.Rows(env.Out, header, rows); err != nil {
		return err
	}
	if len(shared.Hooks) > 0 {
		fmt.Fprintln(env.Out)
		if err := tables.Rows(env.Out, []string{"Hook", "Verify", "Accepted", "Replayed", "Refused", "Last message", "Error"}, hookRows(env, shared.Hooks)); err != nil {
			return err
		}
	}
	if len(shared.Deliveries) > 0 {
		fmt.Fprintln(env.Out)
		if err := tables.Rows(env.Out, []string{"Webhooks of", "Delivered by"}, deliveryRows(shared.Deliveries)); err != nil {
			return err
		}
	}
	if len(shared.Webhooks) == 0 {
		return nil
	}
	fmt.Fprintln(env.Out)
	return tables.Rows(env.Out, []string{"Webhook", "State", "Format", "Delivered", "Given up", "Behind", "Last delivery", "Error"}, webhookRows(env, shared.Webhooks))
}

func hookRows(env *cli.Env, all []hook.Status) (rows [][]string) {
	for _, h := range all {
		var refused []string
		for _, o := range hook.Outcomes() {
			if n := h.Messages[o]; n > 0 && o != hook.Accepted && o != hook.Replayed {
				refused = append(refused, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(o), "_", " ")))
			}
		}
		last, _ := time.Parse(time.RFC3339, h.LastReceived) // empty before the first message
		rows = append(rows, []string{h.ID, string(h.Verify), fmt.Sprint(h.Messages[hook.Accepted]), fmt.Sprint(h.Messages[hook.Replayed]),
			strings.Join(refused, ", "), env.Time(last), strings.Join(h.Missing, "; ")})
	}
	return rows
}

// deliveryRows returns table rows that show which process in a cluster delivers which webhooks.
func deliveryRows(all []webhook.Deliverer) (rows [][]string) {
	for _, d := range all {
		by := cmp.Or(d.Process, "no process")
		if d.Waiting != "" {
			by = "unknown: " + d.Waiting
		}
		rows = append(rows, []string{string(d.Source), by})
	}
	return rows
}

func webhookRows(env *cli.Env, all []webhook.EndpointStatus) (rows [][]string) {
	for _, w := range all {
		last, _ := time.Parse(time.RFC3339, w.LastDelivery) // empty before the first delivery
		row := []string{w.Host, string(w.State), cmp.Or(w.Event, string(w.Format)), fmt.Sprint(w.Delivered), fmt.Sprint(w.Abandoned),
			(time.Duration(w.LagMs) * time.Millisecond).Round(time.Second).String(), env.Time(last), ""}
		if w.State != webhook.Active {
			row[len(row)-1] = string(w.LastError)
		}
		rows = append(rows, row)
	}
	return rows
}
