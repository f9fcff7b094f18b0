package commands

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/hook"
	"github.com/mcptrack/mcptrack/core/printable"
	core "github.com/mcptrack/mcptrack/core/status"
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
		Long: `Shows the servers that a running serve-sse follows, or a gateway with --events, and its
hooks and webhooks. Without a URL it asks the daemon if that follows the same config, else
the serve-sse at http://127.0.0.1:8722.`,
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
	cmd.Flags().DurationVar(&timeout, "timeout", 10*time.Second, "exit after this `DURATION`")
	cli.MainFlags(cmd, "json", "url", "token-file", "timeout")
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
	var shared statusParts
	if err := json.Unmarshal(r.Status, &shared); err != nil {
		return fmt.Errorf("malformed status: %w", err)
	}
	servers := make([]core.Summary, len(r.Servers))
	for i, raw := range r.Servers {
		if err := json.Unmarshal(raw, &servers[i]); err != nil {
			return fmt.Errorf("malformed list of servers: %w", err)
		}
	}
	if g.Format.Table() {
		shared.warn(env)
	}
	return g.Print(env, table.Output{Document: r, Each: servers, Parts: append([]table.Part{shared.servers(env, servers)}, shared.tables(env)...)})
}

// statusParts is what the tables of status show of a status.
type statusParts struct {
	Process    string
	Unfollowed []string
	Waiting    string
	Unstored   string
	Hooks      []hook.Status
	Webhooks   []webhook.EndpointStatus
	Deliveries []webhook.Deliverer `json:"webhookDeliveries"`
}

// warn tells on stderr what does not work.
func (s *statusParts) warn(env *cli.Env) {
	if s.Unstored != "" {
		fmt.Fprintf(env.Err, "%s\n", printable.Line(s.Unstored, 500))
	}
	if s.Waiting != "" {
		fmt.Fprintf(env.Err, "waiting for leases: %s\n", printable.Line(s.Waiting, 300))
	}
	if len(s.Unfollowed) > 0 {
		fmt.Fprintf(env.Err, "no process follows %s\n", cli.Join(s.Unfollowed, 10))
	}
}

func (s *statusParts) servers(env *cli.Env, servers []core.Summary) table.Part {
	of := cli.ServerTable(servers, func(s core.Summary) core.Summary { return s }, func(s core.Summary) []string {
		return []string{env.TimeOf(s.Since), s.ProtocolVersion, string(s.Mode), fmt.Sprint(s.Resources), fmt.Sprint(s.Updates), fmt.Sprint(s.Failures), s.FollowedBy}
	}, "Since", "Protocol", "Mode", "Resources", "Updates", "Failures", "Followed by").Roomy("Protocol", "Mode").Or("no servers are followed")
	if s.Process == "" {
		of = of.Wide("Followed by")
	}
	return of
}

// tables returns the tables below the table of servers.
func (s *statusParts) tables(env *cli.Env) (parts []table.Part) {
	if len(s.Hooks) > 0 {
		parts = append(parts, table.Text(""), table.Records(s.Hooks, func(h hook.Status) []string {
			return []string{h.ID, string(h.Verify), fmt.Sprint(h.Messages[hook.Accepted]), fmt.Sprint(h.Messages[hook.Replayed]),
				refused(h), env.TimeOf(h.LastReceived), strings.Join(h.Missing, "; ")}
		}, "Hook", "Verify", "Accepted", "Replayed", "Refused", "Last message", "Error"))
	}
	if len(s.Deliveries) > 0 {
		parts = append(parts, table.Text(""), table.Records(s.Deliveries, func(d webhook.Deliverer) []string {
			by := cmp.Or(d.Process, "no process")
			if d.Waiting != "" {
				by = "unknown: " + d.Waiting
			}
			return []string{string(d.Source), by}
		}, "Webhooks of", "Delivered by"))
	}
	if len(s.Webhooks) > 0 {
		parts = append(parts, table.Text(""), table.Records(s.Webhooks, func(w webhook.EndpointStatus) []string {
			problem := ""
			if w.State != webhook.Active {
				problem = strings.ReplaceAll(string(w.LastError), "_", " ")
			}
			return []string{w.Host, w.State.Words(), cmp.Or(w.Event, string(w.Format)), fmt.Sprint(w.Delivered), fmt.Sprint(w.Abandoned),
				(time.Duration(w.LagMs) * time.Millisecond).Round(time.Second).String(), env.TimeOf(w.LastDelivery), problem}
		}, "Webhook", "State", "Format", "Delivered", "Given up", "Behind", "Last delivery", "Error").Roomy("Format", "Given up"))
	}
	return parts
}

// refused returns how many messages of a hook were refused, and why.
func refused(h hook.Status) string {
	var out []string
	for _, o := range hook.Outcomes() {
		if n := h.Messages[o]; n > 0 && o != hook.Accepted && o != hook.Replayed {
			out = append(out, fmt.Sprintf("%d %s", n, strings.ReplaceAll(string(o), "_", " ")))
		}
	}
	return strings.Join(out, ", ")
}
