package config

import (
	"encoding/base64"
	"fmt"
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
	// Secret is used to sign the requests, see [WebhookKey]; if it is empty, they are not signed.
	Secret  Secret
	Types   []string // subset of WebhookTypes; empty means all
	Servers []string // globs for server IDs; empty means all
	// URIs contains globs for resource URIs. If it is not empty, only events about matching
	// resources are sent.
	URIs   []string
	Format WebhookFormat
	// Settle is how long a server must be up or down before the state change is sent; 0 means that
	// every state change is sent immediately.
	Settle time.Duration
	// AllowPrivate allows addresses that are not public, and plain HTTP.
	AllowPrivate bool

	// Intent describes what the entry would send, and to whom, as written in the file; nil if the
	// webhook was not read from a file.
	Intent *Intent

	// Missing lists what the webhook needs but is missing on this machine, one clause each, without
	// values. If it is not empty, the webhook cannot be used.
	Missing []string
}

// WebhookFormat is the format of the messages sent to a webhook.
type WebhookFormat string

// The values of "format".
const (
	WebhookStandard    WebhookFormat = "standard"    // an event as defined by MCP Events, sent according to Standard Webhooks
	WebhookCloudEvents WebhookFormat = "cloudevents" // CloudEvents 1.0, structured JSON
	WebhookSlack       WebhookFormat = "slack"       // a text for a Slack incoming webhook
)

// WebhookTypes returns the event types that can be sent to webhooks. The type list.changed, as in MCP Events,
// selects all five lists.
func WebhookTypes() []string {
	return []string{"list.changed", "lock.drift", "prompts.list_changed", "resource.updated", "resources.list_changed", "server.state",
		"skills.list_changed", "templates.list_changed", "tools.list_changed"}
}

// DefaultSettle is the default value of Webhook.Settle.
const DefaultSettle = time.Minute

const (
	maxWebhooks = 100
	minSettle   = time.Second
)

// Equal reports whether all fields of w and o except their Intents are equal.
func (w Webhook) Equal(o Webhook) bool {
	w.Intent, o.Intent = nil, nil
	return equal(reflect.ValueOf(w), reflect.ValueOf(o))
}

// WebhookKey returns the key contained in a webhook's secret, which consists of whsec_ and 24 to 64
// bytes in standard base64, padded or not, and may begin with the version "v1,". The URL-safe alphabet is rejected because common
// libraries cannot decode it.
func WebhookKey(secret string) (key []byte, ok bool) {
	encoded, ok := strings.CutPrefix(strings.TrimPrefix(secret, "v1,"), "whsec_")
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

func (r *reader) webhooks(v *tree.Node) (all []Webhook) {
	r.objects(v, "webhooks", "Webhook", maxWebhooks, `write [{"url": "https://…", "secret": "${WEBHOOK_SECRET}"}]`, func(e *entry) {
		all = append(all, e.webhook())
	})
	return all
}

// objects reads a list of at most most objects under a key of the root object. label is how messages
// call one of them.
func (r *reader) objects(v *tree.Node, name, label string, most int, hint string, read func(*entry)) {
	at := pointer("").key(name)
	if v.Kind != tree.List {
		r.errorAt(v.Offset, at, CodeType, fmt.Sprintf(`Config at %s has invalid %q; expected array`, r.file, name), hint)
		return
	}
	if len(v.Items) > most {
		r.errorAt(v.Offset, at, CodeRange, fmt.Sprintf(`Config at %s has invalid %q; expected at most %d`, r.file, name, most), "")
		return
	}
	for i, item := range v.Items {
		path, label := at.index(i), fmt.Sprintf("%s at index %d", label, i)
		if item.Kind != tree.Object {
			r.errorAt(item.Offset, path, CodeType, label+" must be an object", "")
			continue
		}
		read(r.entry(item, path, label))
	}
}

// fill reads all keys of an entry into the struct at into, and reports the others. missing receives what the entry lacks.
func (t table) fill(e *entry, into any, missing *[]string) {
	e.missing = (*clauses)(missing)
	e.expander.forgetUses()
	for _, k := range t {
		k.fill(e, into)
	}
	e.unknownKeys(e.object, e.path, e.label, t.names(), nil)
}

func (e *entry) webhook() Webhook {
	var w Webhook
	keys := webhookKeys()
	keys.fill(e, &w, &w.Missing)
	w.Settle = max(w.Settle, 0)
	if len(w.URIs) > 0 && len(w.Types) > 0 && !slices.Equal(w.Types, []string{"resource.updated"}) {
		f, _ := e.find("uris")
		e.warnAt(f.key, f.path, CodeIneffective, fmt.Sprintf(`%s has "uris", so only events of type "resource.updated" are sent`, e.label), "")
	}
	w.Intent = e.intent("", keys.names())
	return w
}

// needs returns the value of a required key. If it is absent, empty or not a string, needs reports
// this and ok is false.
func (e *entry) needs(name, hint string) (value string, f field, ok bool) {
	at, path := e.object.Offset, e.path
	if m := e.object.Get(name); m != nil {
		at, path = m.Value.Offset, e.path.key(name)
	}
	if e.members[name] == nil { // the key is absent, null or ""
		e.errorAt(at, path, CodeMissing, fmt.Sprintf("%s must include a non-empty string %q", e.label, name), hint)
		return "", f, false
	}
	return e.text(name)
}

// webhookURL reads the URL, or reports that it is absent or invalid. No message quotes the URL.
func (e *entry) webhookURL(_ []string, w *Webhook) {
	value, f, ok := e.needs("url", "")
	if !ok {
		return
	}
	e.secretURL(f.value.Text, f)
	value = strings.TrimSpace(value)
	u, what, hint := checkURL(value)
	if what == "" && !strings.EqualFold(u.Scheme, "https") && !w.AllowPrivate {
		what, hint = "its scheme must be https", `"allowPrivate": true allows http and private addresses`
	}
	if what != "" {
		e.invalidValue(f.value, f.path, CodeURL, fmt.Sprintf("invalid %q; %s", f.name, what), hint)
		return
	}
	switch {
	case !w.AllowPrivate && ipscope.Private(u.Hostname()):
		e.warnAt(f.value.Offset, f.path, CodeTransport, e.label+" has a private address, to which mcptrack does not send events", `set "allowPrivate": true to allow private addresses`)
	case strings.EqualFold(u.Scheme, "http") && !ipscope.Loopback(u.Hostname()):
		e.warnAt(f.value.Offset, f.path, CodeInsecureURL, e.label+" uses an unencrypted connection", "use https; http is safe only for webhooks on this machine")
	}
	if w.Format == WebhookStandard && strings.EqualFold(u.Hostname(), "hooks.slack.com") {
		e.warnAt(f.value.Offset, f.path, CodeTransport, e.label+" is a Slack webhook, which requires another format", `set "format": "slack"`)
	}
	w.URL = NewSecret(value)
}

// webhookSecret reads the secret. It reports a secret that is invalid, or that is absent although
// the format requires one.
func (e *entry) webhookSecret(_ []string, w *Webhook) {
	const generate = "create one with: echo whsec_$(openssl rand -base64 32)"
	value, f, ok := "", field{}, false
	if w.Format == WebhookStandard {
		value, f, ok = e.needs("secret", generate)
	} else {
		value, f, ok = e.text("secret")
	}
	if !ok {
		return
	}
	expected := ""
	if _, ok := WebhookKey(value); !ok {
		expected = webhookKeyForm
	}
	w.Secret = e.secret(value, f.value, f.path, f.name, expected, generate)
}

const webhookKeyForm = "whsec_ followed by 24 to 64 bytes in standard base64"

// secret returns the value of v, unless something else was expected. A secret that is written in the file is a
// warning. No message quotes it.
func (e *entry) secret(value string, v *tree.Node, path pointer, name, expected, hint string) Secret {
	if !e.expander.refers(v.Text) {
		e.warnSecret(v.Offset, path, quote(name))
	}
	if expected != "" {
		e.invalidValue(v, path, CodeValue, fmt.Sprintf("invalid %q; expected %s", name, expected), hint)
		return Secret{}
	}
	return NewSecret(value)
}
