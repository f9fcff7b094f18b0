package config

import (
	"fmt"
	"net/textproto"
	"reflect"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/suggest"
)

// Hook is an incoming webhook: other programs report with POST /hooks/ID that something changed.
type Hook struct {
	ID     string
	Verify HookScheme
	// Secrets verify the signatures; any of them may have signed a message, so that secrets can be
	// rotated. With HookStandard each has the format of [WebhookKey].
	Secrets []Secret
	// Header is the header with the signature, in canonical form; only for HookHMAC.
	Header string
	// Touches selects the resources to read when a message arrives. The event is published even if it
	// selects none.
	Touches []Touch

	// Intent describes what the entry accepts and reads, as written in the file; nil if the hook was
	// not read from a file.
	Intent *Intent

	// Missing lists what the hook needs but is missing on this machine, one clause each, without
	// values. If it is not empty, the hook must refuse every message.
	Missing []string
}

// Touch selects resources of a server.
type Touch struct {
	Server string // id of a server in the config
	URI    string // glob for resource URIs
}

// HookScheme specifies how the messages to a hook are signed.
type HookScheme string

// The values of "verify".
const (
	HookStandard HookScheme = "standard-webhooks"
	HookGitHub   HookScheme = "github"
	HookStripe   HookScheme = "stripe"
	HookSlack    HookScheme = "slack"
	HookHMAC     HookScheme = "hmac"
)

// HookSchemes returns the values of "verify".
func HookSchemes() []string {
	return []string{string(HookStandard), string(HookGitHub), string(HookStripe), string(HookSlack), string(HookHMAC)}
}

// DefaultHookHeader is the header with the signature of a [HookHMAC] message.
const DefaultHookHeader = "X-Signature-256"

const (
	maxHooks       = 100
	maxHookSecrets = 3
	maxTouches     = 100
	minHookSecret  = 16 // bytes
)

// Equal reports whether all fields of h and o except their Intents are equal.
func (h Hook) Equal(o Hook) bool {
	h.Intent, o.Intent = nil, nil
	return equal(reflect.ValueOf(h), reflect.ValueOf(o))
}

// validHookID reports whether a text may be an id, which is part of a URL that people copy into other
// programs.
func validHookID(id string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	return id != "" && len(id) <= 64 && strings.Contains(letters, id[:1]) && strings.Trim(id, letters+"._-") == ""
}

// hooks reads the incoming webhooks. The servers must have been read.
func (r *reader) hooks(v *tree.Node) (all []Hook) {
	seen := map[string]bool{}
	r.objects(v, "hooks", "Hook", maxHooks, `write [{"id": "repo", "verify": "github", "secret": "${HOOK_SECRET}"}]`, func(e *entry) {
		h := e.hook()
		if f, ok := e.field("id"); ok && h.ID != "" && seen[h.ID] {
			e.errorAt(f.value.Offset, f.path, CodeDuplicateID, fmt.Sprintf("Duplicate hook id %s", quote(h.ID)), "")
		}
		seen[h.ID] = true
		all = append(all, h)
	})
	return all
}

func (e *entry) hook() Hook {
	var h Hook
	keys := hookKeys()
	keys.fill(e, &h, &h.Missing)
	h.Intent = e.intent(h.ID, keys.names())
	return h
}

// hookID reads the id. References are not expanded in it, because it identifies the entry.
func (e *entry) hookID(_ []string, h *Hook) {
	id, f, ok := e.needs("id", "")
	switch {
	case !ok:
	case !validHookID(id) || e.expander.refers(f.value.Text):
		e.errorAt(f.value.Offset, f.path, CodeValue, e.label+` has invalid "id"; expected up to 64 letters, digits, ".", "_" and "-"`,
			"it is the last part of the URL: /hooks/ID")
	default:
		h.ID = id
		e.label = "Hook " + quote(id)
	}
}

// hookVerify reads the scheme, which has no default: a wrong one would refuse every message.
func (e *entry) hookVerify(_ []string, h *Hook) {
	if word, f, ok := e.needs("verify", "it says who signs the messages, such as github"); ok {
		if slices.Contains(HookSchemes(), word) {
			h.Verify = HookScheme(word)
		} else {
			e.notOneOf(f, word, HookSchemes())
		}
	}
}

// hookSecret reads the secrets: a string, or a list of them during a rotation.
func (e *entry) hookSecret(_ []string, h *Hook) {
	m := e.members["secret"]
	if m == nil || m.Value.Kind != tree.List {
		if value, f, ok := e.needs("secret", generateHookSecret(h.Verify)); ok {
			e.addHookSecret(value, f.value, f.path, "secret", h)
		}
		return
	}
	f, _ := e.field("secret")
	if n := len(m.Value.Items); n == 0 || n > maxHookSecrets {
		e.invalid(f, fmt.Sprintf("string, or array of 1 to %d strings", maxHookSecrets), "")
		return
	}
	for i, item := range m.Value.Items {
		name, path := fmt.Sprintf("secret[%d]", i), f.path.index(i)
		if item.Kind != tree.String {
			e.errorAt(item.Offset, path, CodeType, fmt.Sprintf(`%s has invalid "secret" at index %d; expected string`, e.label, i), "")
			continue
		}
		if value, ok := e.expand(item, path, name); ok {
			e.addHookSecret(value, item, path, name, h)
		}
	}
}

// addHookSecret checks a secret and adds it. v is the secret as written.
func (e *entry) addHookSecret(value string, v *tree.Node, path pointer, name string, h *Hook) {
	expected := ""
	if _, ok := WebhookKey(value); h.Verify == HookStandard && !ok {
		expected = webhookKeyForm
	} else if len(value) < minHookSecret {
		expected = fmt.Sprintf("at least %d bytes", minHookSecret)
	}
	if s := e.secret(value, v, path, name, expected, generateHookSecret(h.Verify)); !s.IsZero() {
		h.Secrets = append(h.Secrets, s)
	}
}

// generateHookSecret says where a secret comes from: some senders create it, others take it.
func generateHookSecret(v HookScheme) string {
	switch v {
	case HookStripe:
		return "it is the signing secret of the endpoint in Stripe's dashboard, and begins with whsec_"
	case HookSlack:
		return "it is the signing secret of the app, on its page Basic Information"
	case HookStandard:
		return "create one with: echo whsec_$(openssl rand -base64 32), unless the sender has one"
	}
	return "create one with: openssl rand -hex 32, and give it to the sender"
}

// hookHeader reads the name of the header with the signature.
func (e *entry) hookHeader(_ []string, h *Hook) {
	name, f, ok := e.text("header")
	switch {
	case h.Verify == HookHMAC && !ok:
		h.Header = DefaultHookHeader
	case !ok:
	case h.Verify != HookHMAC:
		e.warnAt(f.key, f.path, CodeIneffective, fmt.Sprintf(`%s has "header", which only "verify": "hmac" uses`, e.label), "")
	case !alphanumeric(name, "!#$%&'*+-.^_`|~"):
		e.invalidValue(f.value, f.path, CodeHeader, `invalid "header"; expected the name of a header`, "")
	default:
		h.Header = textproto.CanonicalMIMEHeaderKey(name)
	}
}

// touches reads which resources are read when a message arrives.
func (e *entry) touches(_ []string, h *Hook) {
	const form = `write [{"server": "docs", "uri": "file:///docs/**"}]`
	f, ok := e.field("touches")
	switch {
	case !ok:
		return
	case f.value.Kind != tree.List:
		e.invalid(f, "array of objects", form)
		return
	case len(f.value.Items) > maxTouches:
		e.errorAt(f.value.Offset, f.path, CodeRange, fmt.Sprintf(`%s has invalid "touches"; expected at most %d`, e.label, maxTouches), "")
		return
	}
	for i, item := range f.value.Items {
		path, label, name := f.path.index(i), fmt.Sprintf(`%s "touches" at index %d`, e.label, i), fmt.Sprintf("touches[%d]", i)
		if item.Kind != tree.Object {
			e.errorAt(item.Offset, path, CodeType, label+" must be an object", form)
			continue
		}
		server, known := e.member(item, path, label, "server", name)
		uri, valid := e.member(item, path, label, "uri", name)
		if known {
			known = e.touched(item.Get("server").Value, path.key("server"), label, server)
		}
		if valid && !glob.Valid(uri) {
			e.invalidValue(item.Get("uri").Value, path.key("uri"), CodeGlob, fmt.Sprintf(`invalid "%s.uri"; expected a glob for resource URIs`, name), `"**" selects every resource of the server`)
			valid = false
		}
		e.unknownKeys(item, path, label, []string{"server", "uri"}, nil)
		if known && valid {
			h.Touches = append(h.Touches, Touch{server, uri})
		}
	}
}

// touched reports whether a hook can touch a server, which must be in the config.
func (e *entry) touched(v *tree.Node, path pointer, label, id string) bool {
	var ids []string
	for _, srv := range e.config.Servers {
		if srv.ID == id {
			return true
		}
		ids = append(ids, srv.ID)
	}
	hint := "it is the id of a server in this config"
	if meant := suggest.Nearest(id, ids); meant != "" {
		hint = fmt.Sprintf("did you mean %s?", quote(meant))
	}
	e.errorAt(v.Offset, path, CodeReference, fmt.Sprintf("%s names unknown server %s", label, quote(id)), hint)
	return false
}
