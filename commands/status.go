package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
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
		Short: "Ask a running serve-sse how it and its servers are",
		Long: `Asks the serve-sse at URL (http://127.0.0.1:8722) for its state and that of every
server it follows.

Exit codes: 0 done; 1 failed; 2 wrong usage; 4 it could not be reached; 5 it refused
(a token is needed, or it is no serve-sse).`,
		Example: `  mcptrack status
  mcptrack status https://mcp.example:8722 --token-file token
  mcptrack status --json | jq '.servers[] | select(.state != "Ready")'`,
		Args: cobra.MaximumNArgs(1),
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
	cmd.Flags().StringVar(&opts.tokenFile, "token-file", "", "`FILE` with the token of the server")
	cmd.Flags().DurationVar(&opts.timeout, "timeout", 10*time.Second, "`TIME` that the answer may take")
	_ = cmd.MarkFlagFilename("token-file")
	return cmd
}

// running is what a serve-sse says of itself.
type running struct {
	Status  json.RawMessage   `json:"status"`
	Servers []json.RawMessage `json:"servers"`
}

func runStatus(ctx context.Context, env *Env, format document.Format, opts statusOptions) error {
	base, err := url.Parse(opts.url)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return usage("%q is no http or https URL", printable.Line(opts.url, 200))
	}
	token := ""
	if opts.tokenFile != "" {
		data, err := os.ReadFile(opts.tokenFile)
		if err != nil {
			return usage("--token-file: %w", err)
		}
		token = strings.TrimSpace(string(data))
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
	rows, err := statusRows(r.Servers)
	if err != nil {
		return err
	}
	return table.Rows(env.Out, []string{"Server", "State", "Since", "Era", "Mode", "Resources", "Updates", "Failures", "Error"}, rows)
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

// askFor gets one JSON document of at most 64 MiB.
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
			return &failure{exit: exitUnreachable, code: "unreachable", err: fmt.Errorf("%s cannot be reached: %w", u.Host, unwrapURL(err)),
				hint: "is mcptrack serve-sse running there?"}
		}
		return err
	}
	defer func() { _ = p.Body.Close() }()
	if p.StatusCode != http.StatusOK {
		f := &failure{exit: exitRefused, code: "refused", err: fmt.Errorf("%s answered %s", u.Host, p.Status)}
		if p.StatusCode == http.StatusUnauthorized {
			f.hint = "name the file with its token with --token-file"
		}
		return f
	}
	if err := json.NewDecoder(io.LimitReader(p.Body, 64<<20)).Decode(into); err != nil {
		return &failure{exit: exitRefused, code: "refused", err: fmt.Errorf("%s is no serve-sse of mcptrack: %w", u.Host, err)}
	}
	return nil
}

func unwrapURL(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

func statusRows(servers []json.RawMessage) ([][]string, error) {
	var rows [][]string
	for _, raw := range servers {
		var s struct {
			ID, State, Since, Era, Mode, Error string
			Resources                          int
			Updates, Failures                  uint64
		}
		if err := json.Unmarshal(raw, &s); err != nil {
			return nil, fmt.Errorf("malformed answer: %w", err)
		}
		rows = append(rows, []string{s.ID, s.State, s.Since, s.Era, s.Mode, fmt.Sprint(s.Resources), fmt.Sprint(s.Updates), fmt.Sprint(s.Failures), s.Error})
	}
	return rows, nil
}
