package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/document"
	"github.com/mcptrack/mcptrack/output/table"
)

type statusOptions struct {
	url       string
	tokenFile string
	timeout   time.Duration
}

func newStatus(env *Env, g *globals) *cobra.Command {
	var opts statusOptions
	cmd := &cobra.Command{
		Use:   "status [URL]",
		Short: "Show the status of a running serve-sse",
		Long: `Shows the status of the serve-sse at URL (default http://127.0.0.1:8722) and of every
server that it follows.

Exit codes: 0 done; 1 failed; 2 wrong usage; 4 the URL could not be reached; 5 the
request was refused (a token is needed, or this is not a serve-sse); 6 --timeout
expired.`,
		Example: `  mcptrack status
  mcptrack status https://mcp.example:8722 --token-file token
  mcptrack status --json | jq '.servers[] | select(.state != "Ready")'`,
		Args: arguments(0, 1),
		RunE: func(cmd *cobra.Command, args []string) error {
			opts.url = "http://127.0.0.1:8722"
			if len(args) == 1 {
				opts.url = args[0]
			}
			if opts.timeout <= 0 {
				return usage("--timeout must be positive")
			}
			return runStatus(cmd.Context(), env, g.format, opts)
		},
	}
	cmd.Flags().StringVar(&opts.tokenFile, "token-file", "", "`FILE` (mode 0600) with the token of the server")
	cmd.Flags().DurationVar(&opts.timeout, "timeout", 10*time.Second, "`DURATION` that the answer may take")
	_ = cmd.MarkFlagFilename("token-file")
	return cmd
}

// running is the status of a serve-sse.
type running struct {
	Status  json.RawMessage   `json:"status"`
	Servers []json.RawMessage `json:"servers"`
}

func runStatus(ctx context.Context, env *Env, format document.Format, opts statusOptions) error {
	base, err := url.Parse(opts.url)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return usage("invalid URL %q; expected http://HOST:PORT or https://HOST:PORT", printable.Line(opts.url, 200))
	}
	token := ""
	if opts.tokenFile != "" {
		if token, err = readSecret("token-file", opts.tokenFile); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, opts.timeout, errTimeout)
	defer cancel()
	var r running
	if err := askFor(ctx, base.JoinPath("/api/status"), token, &r.Status); err != nil {
		return err
	}
	if err := askFor(ctx, base.JoinPath("/api/servers"), token, &r.Servers); err != nil {
		return err
	}
	if format.Name == "name" {
		return writeServerNames(env, r.Servers)
	}
	if !format.Table() {
		return document.Write(env.Out, format, r)
	}
	var shared struct {
		Process    string
		Unfollowed []string
		Waiting    string
	}
	if err := json.Unmarshal(r.Status, &shared); err != nil {
		return fmt.Errorf("malformed status: %w", err)
	}
	if shared.Waiting != "" {
		fmt.Fprintf(env.Err, "waiting for leases: %s\n", printable.Line(shared.Waiting, 300))
	}
	if len(shared.Unfollowed) > 0 {
		fmt.Fprintf(env.Err, "no process follows %s\n", join(shared.Unfollowed, 10))
	}
	rows, err := statusRows(r.Servers, shared.Process != "")
	if err != nil {
		return err
	}
	header := []string{"Server", "State", "Since", "Protocol", "Mode", "Resources", "Updates", "Failures", "Error"}
	if shared.Process != "" {
		header = append(header, "Followed by")
	}
	return table.Rows(env.Out, header, rows)
}

// writeServerNames writes the id of each server.
func writeServerNames(env *Env, servers []json.RawMessage) error {
	var out strings.Builder
	for _, raw := range servers {
		var s struct {
			ID string `json:"id"`
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return fmt.Errorf("malformed status: %w", err)
		}
		out.WriteString(printable.Line(s.ID, 0) + "\n")
	}
	_, err := io.WriteString(env.Out, out.String())
	return err
}

// askFor fetches one JSON document of at most 64 MiB.
func askFor(ctx context.Context, u *url.URL, token string, into any) error {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return err
	}
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	p, err := client.Do(q)
	if err != nil {
		if errors.Is(context.Cause(ctx), errTimeout) || ctx.Err() == nil {
			return &failure{exit: exitUnreachable, code: "unreachable", err: fmt.Errorf("%s cannot be reached: %w", u.Host, printable.Unnamed(err)),
				hint: "is mcptrack serve-sse running there?"}
		}
		return err
	}
	defer func() { _ = p.Body.Close() }()
	if p.StatusCode != http.StatusOK {
		f := &failure{exit: exitRefused, code: "refused", err: fmt.Errorf("%s answered %s", u.Host, p.Status)}
		switch p.StatusCode {
		case http.StatusNotFound:
			f.code = "not_found"
		case http.StatusUnauthorized:
			f.hint = "give the file with its token with --token-file"
		}
		return f
	}
	if err := json.NewDecoder(io.LimitReader(p.Body, 64<<20)).Decode(into); err != nil {
		return &failure{exit: exitRefused, code: "refused", err: fmt.Errorf("%s is not a serve-sse of mcptrack: %w", u.Host, err)}
	}
	return nil
}

func statusRows(servers []json.RawMessage, shared bool) ([][]string, error) {
	var rows [][]string
	for _, raw := range servers {
		var s struct {
			ID, State, Since, ProtocolVersion, Mode, Error, FollowedBy string
			Resources                                                  int
			Updates, Failures                                          uint64
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, fmt.Errorf("malformed answer: %w", err)
		}
		row := []string{s.ID, s.State, s.Since, s.ProtocolVersion, s.Mode, fmt.Sprint(s.Resources), fmt.Sprint(s.Updates), fmt.Sprint(s.Failures), s.Error}
		if shared {
			row = append(row, s.FollowedBy)
		}
		rows = append(rows, row)
	}
	return rows, nil
}
