package commands

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/remote"
	"github.com/mcptrack/mcptrack/output/table"
	"github.com/mcptrack/mcptrack/output/webhook"
)

func newWebhooks(env *cli.Env, g *cli.Globals) *cobra.Command {
	var from cli.RemoteFlags
	var again webhook.Again
	cmd := &cobra.Command{
		Use:   "webhooks [URL]",
		Short: "Show the webhooks of a running serve-sse, or send events again",
		Long: `Shows the webhooks of the config of a running serve-sse: their state, the last result, how
many events wait, and when the next attempt is. --json prints an array with the last five
results of each.

--resend and --since send events again, to all webhooks or to those named by --webhook, and
switch on a webhook that was switched off because it failed for a day. Without a URL,
mcptrack asks the serve-sse at http://127.0.0.1:8722.`,
		Example: `  mcptrack webhooks
  mcptrack webhooks --since 2h --webhook app.example
  mcptrack webhooks --resend 3f9a1c20b7e4d581-42 --token-file token`,
		Args: cli.Args(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := from.TakeURL(args, cli.DefaultServeURL); err != nil {
				return err
			}
			at, err := parseSince(cmd, again.Since)
			if err != nil {
				return err
			}
			if again.Since = at.ID; !at.Time.IsZero() {
				again.Since = at.Time.UTC().Format(time.RFC3339Nano)
			}
			one := cmd.Flags().Changed("resend")
			switch _, _, err := event.ParseID(again.EventID); {
			case one && again.Since != "":
				return cli.Usage("--resend cannot be used with --since")
			case one && err != nil:
				return cli.Usage("invalid --resend %q; expected the id of an event such as 3f9a1c20b7e4d581-42", printable.Line(again.EventID, 60))
			case len(again.Hosts) > 0 && !one && again.Since == "":
				return cli.Usage("--webhook requires --resend or --since")
			}
			client, err := from.Client(env)
			if err != nil {
				return err
			}
			if one || again.Since != "" {
				return resend(cmd.Context(), env, g, client, again)
			}
			return listWebhooks(cmd.Context(), env, g, client)
		},
	}
	cli.MainFlags(cmd, "json", "resend", "since", "webhook", "token-file")
	f := cmd.Flags()
	f.StringVar(&again.EventID, "resend", "", "send the event with this `ID` again")
	f.StringVarP(&again.Since, "since", "s", "", "send again what is stored after this `ID` or time, or for this long (2h, 7d)")
	f.StringArrayVar(&again.Hosts, "webhook", nil, "send only to the webhooks at this `HOST` (repeatable)")
	from.Add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("webhook", func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var hosts []string
		if from.TakeURL(args, cli.DefaultServeURL) == nil {
			if client, err := from.Client(env); err == nil {
				st, _ := webhooksOf(cmd.Context(), client)
				for _, w := range st.Webhooks {
					hosts = append(hosts, w.Host)
				}
			}
		}
		slices.Sort(hosts)
		return cli.Choices(slices.Compact(hosts), again.Hosts)
	})
	return cmd
}

// webhooksOf returns the webhooks of the config of a running serve-sse.
func webhooksOf(ctx context.Context, client remote.Client) (st statusParts, err error) {
	err = client.Get(ctx, []string{"api", "status"}, nil, &st)
	st.Webhooks = slices.DeleteFunc(append([]webhook.EndpointStatus{}, st.Webhooks...), func(w webhook.EndpointStatus) bool { return w.Source != webhook.FromConfig })
	return st, err
}

func listWebhooks(ctx context.Context, env *cli.Env, g *cli.Globals, client remote.Client) error {
	st, err := webhooksOf(ctx, client)
	if err != nil {
		return cli.RemoteFailure(ctx, err, "token-file")
	}
	for _, d := range st.Deliveries {
		if g.Format.Table() && len(st.Webhooks) == 0 && d.Source == webhook.FromConfig && !d.Own && d.Process != "" {
			fmt.Fprintf(env.Err, "another process delivers to the webhooks: %s\n", printable.Line(d.Process, 200))
		}
	}
	return g.Print(env, table.Output{Document: st.Webhooks, Each: st.Webhooks, Parts: []table.Part{table.Records(st.Webhooks, func(w webhook.EndpointStatus) []string {
		last := webhook.Result{Time: w.LastDelivery, Outcome: string(w.LastError)}
		if len(w.Results) > 0 {
			last = w.Results[0]
		}
		waiting := fmt.Sprint(w.Waiting)
		if w.MoreWaiting {
			waiting += "+"
		}
		return []string{w.Host, w.State.Words(), string(w.Format), waiting, strings.ReplaceAll(last.Outcome, "_", " "), env.TimeOf(last.Time), env.TimeOf(w.NextAttempt), env.TimeOf(w.FailedSince), last.EventID}
	}, "Webhook", "State", "Format", "Waiting", "Last result", "At", "Next attempt", "Failing since", "Event").Roomy("Format", "At", "Failing since").Wide("Event").Or("the config has no webhooks, or this process does not deliver to them")}})
}

func resend(ctx context.Context, env *cli.Env, g *cli.Globals, client remote.Client, again webhook.Again) error {
	var all []webhook.Resent
	if err := client.Post(ctx, []string{"api", "webhooks", "resend"}, again, &all); err != nil {
		return cli.RemoteFailure(ctx, err, "token-file")
	}
	err := g.Print(env, table.Output{Document: all, Each: all, Parts: []table.Part{table.Records(all, func(r webhook.Resent) []string {
		return []string{r.Host, string(r.Format), cmp.Or(r.Problem, "is being sent")}
	}, "Webhook", "Format", "Result")}})
	if err == nil && !slices.ContainsFunc(all, func(r webhook.Resent) bool { return r.Problem == "" }) {
		return &cli.Failure{Exit: cli.ExitFailed, Code: "nothing_sent", Err: errors.New("no webhook is sent anything")}
	}
	return err
}
