package commands

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/remote"
	"github.com/mcptrack/mcptrack/output/table"
)

type callsOptions struct {
	cli.RemoteFlags
	dir    string
	since  string
	query  calls.Query
	follow bool
	count  int
}

func newCalls(env *cli.Env, g *cli.Globals) *cobra.Command {
	var opts callsOptions
	cmd := &cobra.Command{
		Use:   "calls [SERVER]",
		Short: "Show which client called which tool, and how it ended",
		Long: `Shows the calls of tools that clients made through the daemon or a gateway, oldest first.
Arguments and results are not recorded. The outcome is ok, tool error (the result has
isError) or error (the client got no result). --json prints each call on a line.

The calls are read from the logs of the daemon and of the gateway on this machine; if
there are none, from the gateway at http://` + cli.DefaultGatewayAddress + `. --url reads from another gateway, and --data-dir
from another log.`,
		Example: `  mcptrack calls github --since 1h
  mcptrack calls --failed --follow
  mcptrack calls --client claude-code --json | jq -s 'map(.ms) | add'`,
		Args:              cli.Args(0, 1),
		ValidArgsFunction: cli.CompleteServerArgs(env, g),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				opts.query.ServerID = args[0]
			}
			if err := opts.parse(cmd); err != nil {
				return err
			}
			return runCalls(cmd.Context(), env, g, opts)
		},
	}
	cli.MainFlags(cmd, "json", "since", "failed", "follow", "client")
	f := cmd.Flags()
	f.StringVarP(&opts.since, "since", "s", "", "begin after this `ID`, at this time, or this long ago (2h, 7d)")
	f.StringVar(&opts.query.Client, "client", "", "only calls of the client with this `NAME`")
	f.BoolVar(&opts.query.Failed, "failed", false, "only calls whose outcome is not ok")
	f.BoolVarP(&opts.follow, "follow", "f", false, "print further calls, until interrupted")
	cli.AddCount(cmd, &opts.count, "calls")
	f.StringVar(&opts.dir, "data-dir", "", "data `DIR` of a daemon or gateway")
	_ = cmd.MarkFlagDirname("data-dir")
	opts.RemoteFlags.Add(cmd)
	f.Lookup("url").Usage = "`URL` or port of a running gateway"
	f.Lookup("token-file").Usage = "`FILE` with the token of the gateway (default $MCPTRACK_TOKEN)"
	return cmd
}

func (o *callsOptions) parse(cmd *cobra.Command) error {
	if o.count < 0 {
		return cli.Usage("--count must not be negative")
	}
	if o.URL != "" && o.dir != "" {
		return cli.Usage("--url cannot be used with --data-dir")
	}
	id, err := strconv.ParseUint(o.since, 10, 63)
	if o.query.After = int64(id); err == nil || o.since == "" {
		return nil
	}
	at, err := parseSince(cmd, o.since)
	if err != nil || at.ID != "" {
		return cli.Usage("invalid --since %q; expected the id of a call, a time such as 2026-11-20T08:00:00Z, or a duration such as 2h or 7d", printable.Line(o.since, 60))
	}
	o.query.After = at.Time.UnixMicro() - 1
	return nil
}

// readCalls reads calls from one place; see [calls.Store].
type readCalls func(context.Context, calls.Query) ([]calls.Call, error)

func runCalls(ctx context.Context, env *cli.Env, g *cli.Globals, opts callsOptions) error {
	var places []readCalls
	nothing := "no calls are recorded on this machine"
	if opts.URL == "" {
		var dirs []string
		if opts.dir != "" {
			dirs, nothing = []string{opts.dir}, "no calls are recorded in "+printable.Line(opts.dir, 200)
		}
		logs, err := cli.OpenCalls(ctx, env, g.Logger(env), dirs...)
		if err != nil {
			return err
		}
		defer logs.Close()
		for _, l := range logs {
			places = append(places, cli.Calls(l).Read)
		}
	}
	if len(places) == 0 && opts.dir == "" {
		at := opts.RemoteFlags
		at.URL = cmp.Or(at.URL, cli.DefaultGatewayAddress)
		client, err := at.Client(env)
		if err != nil {
			return err
		}
		places = append(places, client.Calls)
	}
	out := &callWriter{env: env, g: g, left: math.MaxInt}
	if opts.count > 0 {
		out.left = opts.count
	}
	err := eachCall(ctx, places, opts.query, opts.follow, out.write)
	_, unreachable := errors.AsType[*remote.UnreachableError](err)
	switch {
	case errors.Is(err, errCounted) || opts.follow && ctx.Err() != nil:
		return nil
	case len(places) == 0, unreachable && opts.URL == "" && ctx.Err() == nil:
		return &cli.Failure{Exit: cli.ExitFailed, Code: "nothing_stored", Err: errors.New(nothing),
			Hint: "the daemon and gateway --data-dir store them; --url asks a gateway that runs elsewhere"}
	case unreachable && ctx.Err() == nil:
		return cli.Unreachable("is mcptrack gateway running there?", "%w", err)
	case err == nil && out.table() && !out.wrote:
		g.Tell(env, "no call matches")
	}
	return cli.RemoteFailure(ctx, err, "token-file")
}

// pollCalls is how often further calls are looked for.
const pollCalls = 250 * time.Millisecond

// eachCall calls write with the calls in all places, oldest first, and then with those that follow, until
// ctx ends.
func eachCall(ctx context.Context, places []readCalls, q calls.Query, follow bool, write func([]calls.Call) error) error {
	read := make([]int64, len(places)) // by place, the id up to which calls are read
	for i := range read {
		read[i] = q.After
	}
	answered := make([]bool, len(places)) // by place
	for len(places) > 0 {
		var all []calls.Call
		for i, place := range places {
			newest, err := place(ctx, calls.Query{Newest: 1, After: read[i]}) // also if q does not select it
			answered[i] = answered[i] || err == nil
			for more := len(newest) > 0; more; {
				q.After = read[i]
				var page []calls.Call
				if page, err = place(ctx, q); err != nil {
					break
				}
				all = append(all, page...)
				if more = len(page) == q.Limit(); len(page) > 0 {
					read[i] = page[len(page)-1].ID
				}
			}
			if _, away := errors.AsType[*remote.UnreachableError](err); away && follow && answered[i] {
				continue // perhaps it starts again
			}
			if err != nil {
				return err
			}
			for _, c := range newest {
				read[i] = max(read[i], c.ID)
			}
		}
		sort.SliceStable(all, func(i, j int) bool { return all[i].ID < all[j].ID })
		if err := write(all); err != nil || !follow {
			return err
		}
		if !backoff.Sleep(ctx, pollCalls) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// callWriter prints calls.
type callWriter struct {
	env   *cli.Env
	g     *cli.Globals
	left  int  // calls until errCounted
	wrote bool // the table, with its head
}

func (w *callWriter) table() bool { return w.g.Format.Table() }

func (w *callWriter) write(list []calls.Call) error {
	list = list[:min(len(list), w.left)]
	if err := w.print(list); err != nil {
		return err
	}
	if w.left -= len(list); w.left == 0 {
		return errCounted
	}
	return nil
}

func (w *callWriter) print(list []calls.Call) error {
	var out bytes.Buffer
	switch {
	case len(list) == 0:
		return nil
	case w.table() && !w.wrote:
		w.wrote = true
		head := []string{"Time", "Server", "Tool", "Outcome", "Took", "Size", "Client"}
		if w.g.Format.Wide() {
			head = append(head, "Session", "Code", "ID")
		}
		var rows [][]string
		for i := range list {
			rows = append(rows, w.row(&list[i]))
		}
		part := table.Records(rows, func(row []string) []string { return row }, head...).Roomy("Size")
		return table.Write(w.env.Out, w.g.Format, table.Output{Parts: []table.Part{part}}, w.g.Tables(w.env))
	}
	for i := range list {
		c := &list[i]
		var err error
		switch w.g.Format.Name {
		case "table", "wide":
			r := w.row(c)
			fmt.Fprintf(&out, "%s  %s  %s  %s  %s  %s  %s\n", r[0], printable.Line(r[1], 0), printable.Line(r[2], 0), r[3], r[4], r[5], printable.Line(r[6], 0))
		case "json":
			var doc []byte
			doc, err = printable.Marshal(c)
			out.Write(append(doc, '\n'))
		case "name":
			out.WriteString(printable.Line(c.ServerID, 0) + "\t" + printable.Line(c.Tool, 0) + "\n")
		default:
			err = document.WriteEach(&out, w.g.Format, c, "id", "time", "client", "session", "serverId", "tool", "outcome", "code", "ms", "bytes")
		}
		if err != nil {
			return err
		}
	}
	_, err := out.WriteTo(w.env.Out)
	return err
}

func (w *callWriter) row(c *calls.Call) []string {
	code := ""
	if c.Code != 0 {
		code = strconv.Itoa(c.Code)
	}
	row := []string{w.env.Time(c.Time()), c.ServerID, c.Tool, c.Outcome.Words(), calls.Took(c.Duration), printable.Size(c.Bytes), c.Client}
	if w.g.Format.Wide() {
		row = append(row, c.Session, code, strconv.FormatInt(c.ID, 10))
	}
	return row
}
