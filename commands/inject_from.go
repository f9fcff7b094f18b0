package commands

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/sse/follow"
)

// feedAddress is the URL of a feed.
type feedAddress struct{ url *url.URL }

// parseFeed reads the value of --from: a serve-sse, whose /events is meant, or a
// feed itself.
func parseFeed(text string) (feedAddress, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return feedAddress{}, usage("--from: %q is no http or https URL", printable.Line(text, 200))
	case u.User != nil:
		return feedAddress{}, usage("--from: a URL with a password ends up in logs; use MCPTRACK_TOKEN or --from-token-file")
	}
	u.Fragment = ""
	if strings.Trim(u.Path, "/") == "" {
		u.Path = "/events"
		if q := u.Query(); !q.Has("type") {
			q["type"] = []string{string(event.TypeResourceUpdated), string(event.TypeGap)}
			u.RawQuery = q.Encode()
		}
	}
	return feedAddress{u}, nil
}

// address is the URL without its query.
func (f feedAddress) address() string {
	return printable.Line(f.url.Scheme+"://"+f.url.Host+f.url.EscapedPath(), 256)
}

func (f feedAddress) local() bool {
	host := f.url.Hostname()
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

// follower feeds a sink from a feed.
type follower struct {
	opts    follow.Options
	log     *slog.Logger
	reached atomic.Bool // the feed was, at least once
}

func (o *injectOptions) follower(env *Env, log *slog.Logger) (*follower, error) {
	token := strings.TrimSpace(env.getenv("MCPTRACK_TOKEN"))
	if o.fromTokenFile != "" {
		var err error
		if token, err = readSecret("from-token-file", o.fromTokenFile); err != nil {
			return nil, err
		}
	}
	header := http.Header{}
	if token != "" {
		if o.feed.url.Scheme == "http" && !o.feed.local() && !o.insecure {
			return nil, usageHint("use https, or say --insecure", "--from %s is not encrypted: the token could be read on the way", o.feed.address())
		}
		header.Set("Authorization", "Bearer "+token)
	}
	f := &follower{log: log.With("feed", o.feed.address())}
	f.opts = follow.Options{URL: o.feed.url.String(), Header: header, Logger: f.log, Connected: func() { f.reached.Store(true) }}
	return f, nil
}

// run follows the feed. One that refuses ends the command; one that ends for good
// is as stdin at its end.
func (f *follower) run(ctx context.Context, s *sink, offer func(*event.Event) error) error {
	if s.resume != nil {
		f.opts.LastID = s.resume()
	}
	bad := 0
	err := follow.Run(ctx, f.opts, func(x follow.Event) error {
		e, err := feedEvent(x)
		switch {
		case err != nil:
			if bad++; bad == 1 {
				f.log.Warn("the feed sent what is no event", "err", err)
			}
		case e == nil:
			s.pass(x.ID)
		default:
			if gap, ok := e.Payload.(event.Gap); ok {
				f.log.Warn("updates are missing: the feed has them no more", "from", gap.From, "to", gap.To, "reason", gap.Reason)
			}
			return offer(e)
		}
		return nil
	})
	if errors.Is(err, follow.ErrStopped) {
		return nil
	}
	if refused, ok := errors.AsType[*follow.RefusedError](err); ok {
		failed := &failure{exit: exitRefused, code: "refused", err: fmt.Errorf("--from: %w", err), hint: "is it the address of a serve-sse?"}
		if refused.Status == http.StatusUnauthorized {
			failed.hint = "put its token into MCPTRACK_TOKEN, or name a file with --from-token-file"
		}
		return failed
	}
	return err
}

// feedEvent reads an event of /events, or of the feed in the VibeChat form; nil for
// one that is neither an update nor a gap.
func feedEvent(x follow.Event) (*event.Event, error) {
	var head struct {
		Type        string          `json:"type"`
		ServerID    string          `json:"serverId"`
		ResourceURI string          `json:"resourceUri"`
		Timestamp   json.RawMessage `json:"timestamp"`
	}
	if err := json.Unmarshal([]byte(x.Data), &head); err != nil {
		return nil, err
	}
	switch head.Type {
	case string(event.TypeResourceUpdated), string(event.TypeGap):
		return readEvent([]byte(x.Data))
	case "resource_update":
		var ms int64
		if err := json.Unmarshal(head.Timestamp, &ms); err != nil || head.ServerID == "" || head.ResourceURI == "" {
			return nil, errors.New("an update without a server, a resource or a time")
		}
		e := &event.Event{ServerID: head.ServerID, ResourceURI: head.ResourceURI, Timestamp: time.UnixMilli(ms).UTC(), Payload: event.ResourceUpdated{}}
		if _, seq, err := event.ParseID(x.ID); err == nil {
			e.ID, e.Seq = x.ID, seq
		}
		return e, nil
	}
	return nil, nil
}
