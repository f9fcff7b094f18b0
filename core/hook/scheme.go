package hook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

// A claim is what the headers of a request say about its signature. None of it is verified.
type claim struct {
	id     string    // of the message; empty if the headers have none
	at     time.Time // when the message was signed; zero if the scheme signs no time
	prefix string    // signed before the body
	macs   [][]byte  // HMAC-SHA256 of prefix and body, any of which may match; not used by standard-webhooks
}

// Limits of what headers may claim.
const (
	maxID   = 200 // bytes of an id
	maxMACs = 16
)

// claims parses the headers of a scheme. Each header that it uses must occur exactly once. ok is false
// if one does not, or if its value is malformed.
func claims(h http.Header, hook *config.Hook) (c claim, ok bool) {
	switch hook.Verify {
	case config.HookStandard:
		if c.id, c.at, ok = standardwebhooks.Identify(h); ok {
			c.prefix = c.id + "." + standardwebhooks.Headers(h).Get("Webhook-Timestamp") + "."
		}
	case config.HookGitHub:
		c.id, _ = only(h, "X-Github-Delivery")
		c.macs, ok = mac(h, "X-Hub-Signature-256", "sha256=")
		ok = ok && c.id != ""
	case config.HookStripe:
		c, ok = stripe(h)
	case config.HookSlack:
		text, _ := only(h, "X-Slack-Request-Timestamp")
		if c.at, ok = standardwebhooks.ParseTime(text); ok {
			c.prefix = "v0:" + text + ":"
			c.macs, ok = mac(h, "X-Slack-Signature", "v0=")
		}
	case config.HookHMAC:
		if c.macs, ok = mac(h, hook.Header, "sha256="); !ok {
			c.macs, ok = mac(h, hook.Header, "")
		}
	}
	return c, ok && len(c.id) <= maxID
}

// stripe parses the header of Stripe: t=TIME, and a v1=MAC for each secret that is valid at the moment.
// Other schemes in it, such as v0, are ignored.
func stripe(h http.Header) (c claim, ok bool) {
	text, _ := only(h, "Stripe-Signature")
	stamped := false
	for part := range strings.SplitSeq(text, ",") {
		key, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		switch key {
		case "t":
			if c.at, ok = standardwebhooks.ParseTime(value); !ok || stamped {
				return claim{}, false
			}
			c.prefix, stamped = value+".", true
		case "v1":
			one, valid := decode(value)
			if !valid || len(c.macs) == maxMACs {
				return claim{}, false
			}
			c.macs = append(c.macs, one)
		}
	}
	return c, stamped && len(c.macs) > 0
}

// mac parses a header that consists of a prefix and a MAC in hexadecimal.
func mac(h http.Header, name, prefix string) (macs [][]byte, ok bool) {
	text, _ := only(h, name)
	digits, ok := strings.CutPrefix(text, prefix)
	if !ok {
		return nil, false
	}
	one, ok := decode(digits)
	return [][]byte{one}, ok
}

func decode(digits string) (mac []byte, ok bool) {
	mac, err := hex.DecodeString(digits)
	return mac, err == nil && len(mac) == sha256.Size
}

// only returns the value of a header, and "" if it is absent or occurs more than once.
func only(h http.Header, name string) (value string, ok bool) {
	if values := h.Values(name); len(values) == 1 {
		return values[0], true
	}
	return "", false
}

// signed reports whether a message was signed with one of the hook's secrets. It takes the same time
// for all wrong signatures.
func (c *claim) signed(h http.Header, body []byte, hook *config.Hook) (ok bool) {
	for _, s := range hook.Secrets {
		if hook.Verify == config.HookStandard {
			key, err := standardwebhooks.ParseSecret(s.Reveal())
			ok = ok || err == nil && key.Signed(body, h)
			continue
		}
		want := hmac.New(sha256.New, []byte(s.Reveal()))
		_, _ = want.Write([]byte(c.prefix)) // never fails
		_, _ = want.Write(body)
		sum := want.Sum(nil)
		for _, got := range c.macs {
			ok = hmac.Equal(got, sum) || ok
		}
	}
	return ok
}

// inBody returns the id that the body of a verified message contains, for the schemes whose senders
// sign a message anew each time they send it. For a check of the URL by Slack it returns the answer.
func inBody(body []byte, v config.HookScheme) (id string, challenge *string) {
	var members struct {
		Type      string  `json:"type"`
		ID        string  `json:"id"`
		EventID   string  `json:"event_id"`
		Challenge *string `json:"challenge"`
	}
	if !slices.Contains([]config.HookScheme{config.HookStripe, config.HookSlack}, v) || json.Unmarshal(body, &members) != nil {
		return "", nil
	}
	if v == config.HookStripe {
		return members.ID[:min(len(members.ID), maxID)], nil
	}
	if members.Type == "url_verification" {
		return "", members.Challenge
	}
	return members.EventID[:min(len(members.EventID), maxID)], nil
}
