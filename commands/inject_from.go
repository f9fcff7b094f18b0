package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/printable"
	outsse "github.com/mcptrack/mcptrack/output/feed"
	"github.com/mcptrack/mcptrack/output/jsonl"
	"github.com/mcptrack/mcptrack/output/remote"
)

// feedAddress is the URL of a feed.
type feedAddress struct{ url *url.URL }

// parseFeed parses the value of --from: the address of a serve-sse, which means its /events, or
// the URL of a feed.
func parseFeed(text string) (feedAddress, error) {
	u, err := parseServeURL("--from", text)
	if err != nil {
		return feedAddress{}, err
	}
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/events"
		if q := u.Query(); !q.Has("type") {
			q["type"] = []string{string(event.TypeResourceUpdated), string(event.TypeGap)}
			u.RawQuery = q.Encode()
		}
	}
	return feedAddress{u}, nil
}

// address returns the URL without its query.
func (f feedAddress) address() string {
	return printable.Line(f.url.Scheme+"://"+f.url.Host+f.url.EscapedPath(), 256)
}

// follower passes the events of a feed to a sink.
type follower struct {
	opts    remote.FeedOptions
	log     *slog.Logger
	reached atomic.Bool // the feed could be reached at least once
}

func (o *injectOptions) follower(env *Env, log *slog.Logger) (*follower, error) {
	token := strings.TrimSpace(env.getenv("MCPTRACK_TOKEN"))
	if o.fromTokenFile != "" {
		var err error
		if token, err = readSecret("from-token-file", o.fromTokenFile); err != nil {
			return nil, err
		}
	}
	if token != "" {
		if o.feed.url.Scheme == "http" && !ipscope.Loopback(o.feed.url.Hostname()) && !o.insecure {
			return nil, usageHint("use https, or add --insecure", "--from %s is not encrypted: others could read the token", o.feed.address())
		}
	}
	if q := o.feed.url.Query(); o.refreshTools && q.Has("type") {
		q.Add("type", string(event.TypeToolsListChanged))
		o.feed.url.RawQuery = q.Encode()
	}
	f := &follower{log: log.With("feed", o.feed.address())}
	f.opts = remote.FeedOptions{URL: o.feed.url.String(), Header: bearer(token), Logger: f.log, Connected: func() { f.reached.Store(true) }}
	return f, nil
}

// run follows the feed. A refusal ends the command; the permanent end of the feed is like
// the end of stdin.
func (f *follower) run(ctx context.Context, s *sink, offer func(*event.Event) error) error {
	if s.resume != nil {
		f.opts.LastID = s.resume()
	}
	bad := 0
	err := remote.Follow(ctx, f.opts, func(x eventstream.Event) error {
		e, err := feedEvent(x)
		switch {
		case err != nil:
			if bad++; bad == 1 {
				f.log.Warn("the feed sent something that is not an event", "err", err)
			}
		case e == nil:
			s.pass(x.ID)
		default:
			if gap, ok := e.Payload.(event.Gap); ok {
				f.log.Warn("some updates have expired from the feed", "from", gap.From, "to", gap.To, "reason", gap.Reason)
			}
			return offer(e)
		}
		return nil
	})
	if errors.Is(err, remote.ErrFeedEnded) {
		return nil
	}
	if refused, ok := errors.AsType[*remote.FeedRefusedError](err); ok {
		failed := &failure{exit: exitRefused, code: "refused", err: fmt.Errorf("--from: %w", err), hint: "check that it is the address of a serve-sse"}
		if refused.Status == http.StatusUnauthorized {
			failed.hint = "set MCPTRACK_TOKEN, or use --from-token-file"
		}
		return failed
	}
	return err
}

// feedEvent decodes an event of /events, or of /api/mcp/resource-events, the feed for VibeChat. It
// returns nil for events other than updates and gaps.
func feedEvent(x eventstream.Event) (*event.Event, error) {
	var head struct {
		Type event.Type `json:"type"`
	}
	if err := json.Unmarshal([]byte(x.Data), &head); err != nil {
		return nil, err
	}
	switch head.Type {
	case event.TypeResourceUpdated, event.TypeToolsListChanged, event.TypeGap:
		return jsonl.Decode([]byte(x.Data))
	}
	return outsse.ParseVibeChat(x.ID, []byte(x.Data))
}
