package webhook

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

const (
	verifiedFor   = 24 * time.Hour
	challengeWait = 10 * time.Second // between two challenges of one client for one URL
	hostPerMinute = 30
	maxRemembered = 10_000
	wellKnown     = "/.well-known/mcp-webhook-receiver.json"
)

// challenges limits how often endpoints are asked to prove that they want events: the requests
// go to URLs that clients choose.
type challenges struct {
	mu    sync.Mutex
	last  map[string]time.Time   // last challenge, by principal and URL
	hosts map[string][]time.Time // by name of the host: the challenges of the last minute
	swept time.Time              // when what is outdated was last removed
}

// admit returns why a principal may not have the endpoint at rawURL challenged now, nil if it may. A
// challenge that is allowed counts towards the limits.
func (c *challenges) admit(principal, rawURL string) *fullError {
	host := hostName(rawURL)
	key := principal + "\x00" + rawURL
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if at, ok := c.last[key]; ok && now.Sub(at) < challengeWait {
		return &fullError{"verifications of an endpoint", 1, fmt.Sprintf("an endpoint is verified at most once in %d s for a client", challengeWait/time.Second)}
	}
	var recent []time.Time
	for _, at := range c.hosts[host] {
		if now.Sub(at) < time.Minute {
			recent = append(recent, at)
		}
	}
	if len(recent) >= hostPerMinute {
		c.hosts[host] = recent
		return &fullError{"verifications of endpoints at a host", hostPerMinute, fmt.Sprintf("endpoints at a host are verified at most %d times a minute", hostPerMinute)}
	}
	if (len(c.last) >= maxRemembered || len(c.hosts) >= maxRemembered) && now.Sub(c.swept) >= time.Second {
		c.swept = now
		for key, at := range c.last {
			if now.Sub(at) >= challengeWait {
				delete(c.last, key)
			}
		}
		for host, all := range c.hosts {
			if now.Sub(all[len(all)-1]) >= time.Minute {
				delete(c.hosts, host)
			}
		}
	}
	if _, known := c.hosts[host]; len(c.last) >= maxRemembered || len(c.hosts) >= maxRemembered && !known {
		return &fullError{"verifications", maxRemembered, fmt.Sprintf("at most %d verifications of endpoints are remembered", maxRemembered)}
	}
	c.last[key], c.hosts[host] = now, append(recent, now)
	return nil
}

// hostName returns the name of the host of a URL, however it is written: a client could use
// all ports of a host otherwise.
func hostName(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// verify asks an endpoint to prove that it wants events: by repeating a nonce, or by naming the
// path in a document of its origin. It returns why the proof failed, "" if it did not.
func (s *Subscriptions) verify(ctx context.Context, r *record, secret standardwebhooks.Secret) (Error, error) {
	nonce := rand.Text()
	m := r.control("verification", map[string]any{"challenge": nonce})
	m.Secrets = []standardwebhooks.Secret{secret}
	from := new(caller)
	got, err := s.opts.Sender.post(ctx, from, m, nil)
	if err != nil {
		return "", err
	}
	if got.Err == "" && !got.Drop {
		var answer struct {
			Challenge string `json:"challenge"`
		}
		if json.Unmarshal(got.answer, &answer) == nil && subtle.ConstantTimeCompare([]byte(answer.Challenge), []byte(nonce)) == 1 {
			return "", nil
		}
		got.Err = ChallengeFailed
	}
	if got.Drop {
		got.Err = HTTP4xx
	}
	if got.Err != ConnectionRefused && s.opts.Sender.names(ctx, from, r.URL) {
		return "", nil
	}
	return got.Err, nil
}

// names reports whether the well-known document of a URL's origin says that the URL is a
// receiver.
func (s *Sender) names(ctx context.Context, from *caller, raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || strings.Contains(u.Path, "..") {
		return false
	}
	release, err := s.acquire(ctx, hostName(raw), from)
	if err != nil {
		return false
	}
	defer release()
	at := url.URL{Scheme: u.Scheme, Host: u.Host, Path: wellKnown}
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return false
	}
	got := s.do(q, false)
	var doc struct {
		Receivers []string `json:"receivers"`
	}
	if got.Err != "" || got.Drop || json.Unmarshal(got.answer, &doc) != nil {
		return false
	}
	for _, prefix := range doc.Receivers {
		if strings.HasPrefix(prefix, "/") && (u.Path == prefix || strings.HasPrefix(u.Path, strings.TrimSuffix(prefix, "/")+"/")) {
			return true
		}
	}
	return false
}
