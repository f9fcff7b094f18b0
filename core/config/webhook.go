package config

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/ipscope"
)

// Webhook is a URL to which events are sent by HTTP POST.
type Webhook struct {
	URL Secret
	// Secret signs the requests; its form is that of [WebhookKey]. Empty: they are not signed.
	Secret  Secret
	Types   []string // some of WebhookTypes; none means all
	Servers []string // globs over server IDs; none means all
	// URIs are globs over resource URIs. If there are any, only events about matching resources
	// are sent.
	URIs   []string
	Format WebhookFormat
	// Settle is how long a server must have been up, or down, before the change is sent; 0:
	// every change of state is sent at once.
	Settle time.Duration
	// AllowPrivate allows addresses that are not public, and plain HTTP.
	AllowPrivate bool

	// Intent is what the entry would send, and to whom, as the file writes it; nil if the webhook
	// was not read from a file.
	Intent *Intent

	// Missing says what the webhook needs and this machine lacks, one clause each, by names and
	// never values. If it is not empty, the webhook cannot be used.
	Missing []string
}

// WebhookFormat is the form of what is sent.
type WebhookFormat string

// The choices of "format".
const (
	WebhookStandard    WebhookFormat = "standard"    // an event of MCP Events, as Standard Webhooks
	WebhookCloudEvents WebhookFormat = "cloudevents" // CloudEvents 1.0, structured JSON
	WebhookSlack       WebhookFormat = "slack"       // a text for an incoming webhook of Slack
)

// WebhookTypes are the types of events that can be sent.
func WebhookTypes() []string { return []string{"list.changed", "resource.updated", "server.state"} }

// DefaultSettle is the default of Webhook.Settle.
const DefaultSettle = time.Minute

const (
	maxWebhooks = 100
	minSettle   = time.Second
)

// Equal reports whether w and o are the same in every respect.
func (w Webhook) Equal(o Webhook) bool { return reflect.DeepEqual(w.withoutEmpty(), o.withoutEmpty()) }

func (w Webhook) withoutEmpty() Webhook {
	w.Intent = nil
	for _, list := range []*[]string{&w.Types, &w.Servers, &w.URIs, &w.Missing} {
		if len(*list) == 0 {
			*list = nil
		}
	}
	return w
}

// WebhookKey returns the key in a secret of a webhook: whsec_ and 24 to 64 bytes in
// standard base64, padded or not. The URL-safe alphabet is refused, as the common
// libraries cannot read it.
func WebhookKey(secret string) (key []byte, ok bool) {
	encoded, ok := strings.CutPrefix(secret, "whsec_")
	if !ok || strings.ContainsAny(encoded, "\r\n") {
		return nil, false
	}
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	padded := strings.HasSuffix(encoded, "=")
	if err != nil || padded && base64.StdEncoding.EncodeToString(key) != encoded || len(key) < 24 || len(key) > 64 {
		return nil, false
	}
	return key, true
}

// webhooks reads the key "webhooks" of the document.
func (r *reader) webhooks(v *tree.Node) (all []Webhook) {
	if v.Kind != tree.List {
		r.errorAt(v.Offset, "/webhooks", CodeType, fmt.Sprintf(`Config at %s has invalid "webhooks"; expected array`, r.file),
			`write [{"url": "https://…", "secret": "${WEBHOOK_SECRET}"}]`)
		return nil
	}
	if len(v.Items) > maxWebhooks {
		r.errorAt(v.Offset, "/webhooks", CodeRange, fmt.Sprintf(`Config at %s has invalid "webhooks"; expected at most %d`, r.file, maxWebhooks), "")
		return nil
	}
	for i, item := range v.Items {
		path, label := pointer("/webhooks").index(i), fmt.Sprintf("Webhook at index %d", i)
		if item.Kind != tree.Object {
			r.errorAt(item.Offset, path, CodeType, label+" must be an object", "")
			continue
		}
		all = append(all, webhookKeys{r.entry(item, path, label)}.webhook())
	}
	return all
}

// webhookKeys reads the keys of a webhook.
type webhookKeys struct{ *entry }

func (e webhookKeys) webhook() Webhook {
	var w Webhook
	e.missing = (*clauses)(&w.Missing)
	e.expander.forgetUses()
	w.AllowPrivate = e.boolean("allowPrivate", false)
	w.Format, _, _ = choice(e.entry, WebhookStandard, map[string]WebhookFormat{
		"standard": WebhookStandard, "cloudevents": WebhookCloudEvents, "slack": WebhookSlack}, "format")
	w.URL, w.Secret = NewSecret(e.url(&w)), NewSecret(e.secret(&w))
	if w.Settle = e.durationOrZero("settle", DefaultSettle, minSettle); w.Settle < 0 {
		w.Settle = 0
	}
	w.URIs = trackingKeys(e).globs("uris", "resource URIs", `* stays within a path segment, ** crosses them: "file:///docs/**"`)
	w.Servers = trackingKeys(e).globs("servers", "server ids", `* matches any text: "team-*"`)
	types, raw := e.strings("types", func(i int) string {
		return fmt.Sprintf("%s has invalid %q at index %d; expected string", e.label, "types", i)
	})
	for i, name := range types {
		if !slices.Contains(WebhookTypes(), name) {
			e.notOneOf(field{name: "types", value: raw[i], path: e.path.key("types").index(i)}, name, WebhookTypes())
		}
	}
	w.Types = types
	if len(w.URIs) > 0 && len(types) > 0 && !slices.Equal(types, []string{"resource.updated"}) {
		f, _ := e.find("uris")
		e.warnAt(f.key, f.path, CodeIneffective, fmt.Sprintf(`%s has "uris", so that only events of type "resource.updated" are sent`, e.label), "")
	}
	e.unknownKeys(e.object, e.path, e.label, webhookMembers(), nil)
	w.Intent = e.intent("", webhookMembers())
	return w
}

func webhookMembers() []string {
	return []string{"url", "secret", "types", "servers", "uris", "format", "settle", "allowPrivate"}
}

// needs returns the value of a required key; ok is false if it is absent, not a string or
// empty, which is reported.
func (e webhookKeys) needs(name, hint string) (value string, f field, ok bool) {
	if m := e.object.Get(name); m == nil {
		e.errorAt(e.object.Offset, e.path, CodeMissing, fmt.Sprintf("%s must include a non-empty string %q", e.label, name), hint)
		return "", f, false
	} else if e.members[name] == nil { // null or ""
		e.errorAt(m.Value.Offset, e.path.key(name), CodeMissing, fmt.Sprintf("%s must include a non-empty string %q", e.label, name), hint)
		return "", f, false
	}
	return e.text(name)
}

// url returns the URL if it is valid; "" if it is absent, or invalid and reported. No message
// quotes it.
func (e webhookKeys) url(w *Webhook) string {
	value, f, ok := e.needs("url", "")
	if !ok {
		return ""
	}
	remoteKeys(e).secretURL(f.value.Text, f)
	value = strings.TrimSpace(value)
	u, what, hint := checkURL(value)
	if what == "" && !strings.EqualFold(u.Scheme, "https") && !w.AllowPrivate {
		what, hint = "its scheme must be https", `"allowPrivate": true allows http and private addresses`
	}
	if what != "" {
		e.invalidValue(f.value, f.path, CodeURL, fmt.Sprintf("invalid %q; %s", f.name, what), hint)
		return ""
	}
	switch {
	case !w.AllowPrivate && ipscope.Private(u.Hostname()):
		e.warnAt(f.value.Offset, f.path, CodeTransport, e.label+" has a private address, to which mcptrack sends nothing", `set "allowPrivate": true to allow private addresses`)
	case strings.EqualFold(u.Scheme, "http") && !ipscope.Loopback(u.Hostname()):
		e.warnAt(f.value.Offset, f.path, CodeInsecureURL, e.label+" is reached without encryption", "use https; http is safe only for webhooks on this machine")
	}
	if slack(u) && w.Format == WebhookStandard {
		e.warnAt(f.value.Offset, f.path, CodeTransport, e.label+" is a Slack webhook, which requires another format", `set "format": "slack"`)
	}
	return value
}

func slack(u *url.URL) bool { return strings.EqualFold(u.Hostname(), "hooks.slack.com") }

// secret returns the secret if it is valid; "" if it is absent, or invalid and reported.
func (e webhookKeys) secret(w *Webhook) string {
	const generate = "make one with: echo whsec_$(openssl rand -base64 32)"
	var value string
	var f field
	var ok bool
	if w.Format == WebhookStandard {
		value, f, ok = e.needs("secret", generate)
	} else {
		value, f, ok = e.text("secret")
	}
	if !ok {
		return ""
	}
	if !e.expander.refers(f.value.Text) {
		e.warnSecret(f.value.Offset, f.path, quote(f.name))
	}
	if _, ok := WebhookKey(value); !ok {
		e.invalidValue(f.value, f.path, CodeValue, fmt.Sprintf("invalid %q; expected whsec_ followed by 24 to 64 bytes in standard base64", f.name), generate)
		return ""
	}
	return value
}
