package config

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/printable"
)

// A table lists the keys of one type of object in the file, which is read into a struct. The tables
// (serverKeys, oauthKeys, webhookKeys, hookKeys, indexKeys, clientKeys) are the only place that lists keys. They
// determine what is read and how, the JSON Schema, the table in "mcptrack help config", what init
// keeps, which changes require a new connection, and which require the user's approval. To add a
// key, add a row and the field into which it is read.
type table []key

// A key is one row of a table.
type key struct {
	name string
	also []string // alternative spellings in mcptrack's own format
	host []string // spellings used only by other hosts
	adds []string // keys of other hosts that have their own form and add to the value of this key

	// field names the field into which the key is read; it is empty if the key does not have its own
	// field. If read is nil, the field's type determines how the value is read.
	field string
	read  func(e *entry, spellings []string, into any) // into points to the struct; see reads
	words []string                                     // allowed values of a string type, or of the elements of a list
	globs string                                       // what the elements of a list match, if they are globs
	def   string                                       // default value, as written in a file
	least time.Duration                                // shortest allowed duration
	never bool                                         // allows the duration "0", which is read as -1

	// mixed means that other programs use the same name for something else. In a file that may be
	// theirs, a value is only read if it has the shape of the key's values: one of kinds, or what the
	// field's type determines.
	mixed bool
	kinds []tree.Kind
	// is, if not nil, reports whether a value has the shape instead. Such a key is so common that another
	// value causes no warning.
	is func(*tree.Node) bool

	use  use
	live bool // a new value takes effect in an open session instead of requiring a new connection
	free bool // changes do not require approval, because the key does not affect what is run, sent or enforced

	schema  string // definition in schema.json, if the field's type does not determine it
	example string // example value as JSON, if the field's type does not determine one
	doc     string // description of the key, as Markdown without line breaks

	spellings []string            // name, also and host combined; set by made
	at        reflect.StructField // field; set by made
}

// use specifies which servers use a key.
type use int

const (
	byAll      use = iota
	byPrograms     // servers with the stdio transport
	byURLs         // servers with the transports http, sse and catalog
	bySessions     // servers with any transport except catalog
	byCatalogs
)

func (u use) includes(t Transport) bool {
	switch u {
	case byPrograms:
		return t == TransportStdio
	case byURLs:
		return t != TransportStdio
	case bySessions:
		return t != TransportCatalog
	case byCatalogs:
		return t == TransportCatalog
	}
	return true
}

// readWithOthers is the read function of a key that is read together with another key.
func readWithOthers(*entry, []string, any) {}

// reads returns the read function of a key of a T.
func reads[T any](read func(*entry, []string, *T)) func(*entry, []string, any) {
	return func(e *entry, spellings []string, into any) { read(e, spellings, into.(*T)) }
}

// serverKeys returns the keys of a server, in the order used in the manual.
func serverKeys() table {
	const globHint = " `*` matches within a path segment, `**` across segments, `{a,b}` either."
	return table{
		{name: "id", read: readWithOthers, free: true, schema: "id", example: `"docs"`,
			doc: "The name of the server if the servers are a list; in an object, the key is the name."},
		{name: "description", mixed: true, field: "Description", read: readWithOthers, free: true, live: true,
			doc: "Text for people."},
		{name: "enabled", field: "Enabled", read: readWithOthers, free: true, def: "true",
			doc: "`false`: listed, but never connected."},
		{name: "disabled", field: "Enabled", read: readWithOthers, free: true, def: "false",
			doc: "The opposite of `enabled`."},
		{name: "type", also: []string{"transport"}, read: readWithOthers, schema: "transport", example: `"http"`,
			doc: "`stdio`, `http`, `sse` or `catalog` (see `mcptrack help catalogs`). Default: `stdio` with `command`, else `http`, which falls back to `sse`."},
		{name: "command", host: []string{"cmd"}, read: reads((*entry).program), schema: "text", example: `"go"`,
			doc: "The program, without arguments. No shell starts it."},
		{name: "args", field: "Args", read: readWithOthers, use: byPrograms,
			doc: "The arguments."},
		{name: "env", host: []string{"environment", "envs"}, adds: []string{"env_vars", "env_keys"}, read: readWithOthers, use: byPrograms, schema: "env", example: `{"LEVEL": "debug"}`,
			doc: "Environment variables; `null` removes one."},
		{name: "envFile", read: readWithOthers, use: byPrograms, schema: "string", example: `".env"`,
			doc: "A file of `NAME=VALUE` lines. `env` takes precedence."},
		{name: "cwd", also: []string{"workingDirectory"}, field: "Dir", read: readWithOthers, use: byPrograms,
			doc: "The working directory. Default: the current one."},
		{name: "url", also: []string{"serverUrl", "httpUrl"}, host: []string{"uri", "tcp"}, read: reads((*entry).remote), schema: "text", example: `"https://docs.example/mcp"`,
			doc: "The http or https URL."},
		{name: "headers", adds: []string{"http_headers", "env_http_headers", "requestOptions", "bearer_token_env_var", "bearerTokenEnvVar", "api_key_env", "api_key_header", "api_key_format"}, read: readWithOthers, use: byURLs, schema: "headers", example: `{"X-Team": "docs"}`,
			doc: "Headers for every request to `url`."},
		{name: "oauth", mixed: true, kinds: []tree.Kind{tree.Object, tree.Bool}, adds: []string{"auth", "scopes", "oauthScopes"}, read: reads((*entry).oauth), schema: "oauth", example: `{"clientId": "me"}`,
			doc: "How to log in to `url`, if the server does not announce it: an object of " + oauthKeys().quoted() + ". See `mcptrack login --help`."},

		{name: "trackResources", field: "TrackResources", use: bySessions, free: true, live: true, def: "false",
			doc: "Follow the server's resources."},
		{name: "trackTools", field: "TrackTools", use: bySessions, free: true, live: true,
			doc: "Follow its tools. Default: as `trackResources`."},
		{name: "trackPrompts", field: "TrackPrompts", use: bySessions, free: true, live: true,
			doc: "Follow its prompts. Default: as `trackResources`."},
		{name: "trackSkills", field: "TrackSkills", use: bySessions, free: true, live: true,
			doc: "Follow its skills. Default: as `trackResources`."},
		{name: "include", mixed: true, field: "Include", globs: "resource URIs", use: bySessions, free: true, live: true,
			doc: "Globs of the resource URIs to follow. Default: all." + globHint},
		{name: "exclude", mixed: true, field: "Exclude", globs: "resource URIs", use: bySessions, free: true, live: true,
			doc: "Globs of the resource URIs not to follow."},
		{name: "read", mixed: true, field: "Read", words: []string{"digest", "none"}, use: bySessions, free: true, live: true, def: string(ReadDigest),
			doc: "`digest` reads changed resources to compare their content; `none` does not read them."},
		{name: "mode", mixed: true, field: "Mode", words: []string{"auto", "poll"}, use: bySessions, free: true, live: true, def: string(ModeAuto),
			doc: "`auto` relies on updates that the server pushes; `poll` reads resources at `pollInterval`."},
		{name: "pollInterval", field: "PollInterval", use: bySessions, free: true, live: true, def: short(DefaultPollInterval), least: minPollInterval,
			doc: "How often a server that cannot push is polled."},
		{name: "safetyInterval", field: "SafetyInterval", use: bySessions, free: true, live: true, def: short(DefaultSafetyInterval), least: minSafetyInterval, never: true,
			doc: "How often resources are read although the server pushes updates, because it may miss some."},
		{name: "events", mixed: true, kinds: []tree.Kind{tree.String, tree.List, tree.Object}, field: "Events", read: reads((*entry).events), use: bySessions, live: true, schema: "events", example: `["build.done"]`,
			doc: "MCP Events of the server to follow: `auto` (default: mcptrack's own types), `all`, `off`, or a list of types."},
		{name: "onConnect", field: "OnConnect", read: reads((*entry).onConnect), use: bySessions, schema: "onConnect", example: `[{"tool": "login", "arguments": {}}]`,
			doc: "Tool calls in every new session, after subscribing: a list of `{\"tool\": \"…\", \"arguments\": {…}}`."},
		{name: "protocol", mixed: true, also: []string{"protocolEra"}, field: "Protocol", words: []string{"auto", "legacy", "modern"}, use: bySessions, free: true, def: string(ProtocolAuto),
			doc: "`legacy` is 2024-11-05 to 2025-11-25, `modern` is 2026-07-28. `auto` chooses."},
		{name: "connectTimeout", mixed: true, field: "ConnectTimeout", use: bySessions, free: true, least: time.Millisecond,
			doc: "The longest that connecting may take. Default: 15s."},
		{name: "requestTimeout", mixed: true, field: "RequestTimeout", free: true, live: true, def: short(DefaultRequestTimeout), least: time.Millisecond,
			doc: "The longest that a request may take."},
		{name: "shared", mixed: true, kinds: []tree.Kind{tree.Bool, tree.String}, field: "Sharing", read: reads((*entry).shared), use: bySessions, free: true, live: true, def: "true", schema: "shared", example: `"machine"`,
			doc: "Who shares the server through the daemon: `folder` or `true`, `machine`, or `false` (nobody). See `mcptrack help daemon`."},
		{name: "idle", mixed: true, field: "Idle", use: bySessions, free: true, live: true, least: time.Second,
			doc: "How long the daemon keeps the server without clients. Default: 10m."},
		{name: "lock", mixed: true, kinds: []tree.Kind{tree.Object}, field: "Lock", read: reads((*entry).lockPolicy), live: true, schema: "lock", example: `{"wording": "allow", "added": "block"}`,
			doc: "What the gateway does about unapproved changes, by class: `allow`, `audit`, `hold` or `block`. See `mcptrack help lock`."},
		{name: "pinContent", field: "PinContent", globs: "resource URIs", use: bySessions, free: true, live: true,
			doc: "Globs of the resources whose contents belong to the lock. Default: none."},
		{name: "tools", mixed: true, is: isToolObject, field: "Tools", read: reads((*entry).tools), live: true, schema: "tools", example: `{"create_issue": {"name": "new_issue", "description": "Reports a bug."}}`,
			doc: "Other names and descriptions of tools, for clients of the gateway and the daemon: `{\"TOOL\": {\"name\": \"…\", \"description\": \"…\"}}`."},
		{name: "maxResult", field: "MaxResult", free: true, live: true, example: `"64KiB"`,
			doc: "The largest result of a tool that these clients get whole, at least 1KiB. Of a larger one they get the beginning and a link."},
		{name: "catalogInterval", field: "CatalogInterval", use: byCatalogs, free: true, live: true, def: short(DefaultCatalogInterval), least: minPollInterval,
			doc: "How often the version of a catalog is checked."},
	}.made(Server{})
}

// oauthKeys returns the keys of the "oauth" object.
func oauthKeys() table {
	return table{
		{name: "clientId", host: []string{"client_id", "CLIENT_ID"}, field: "ClientID",
			doc: "The ID of a client that is registered with the authorization server."},
		{name: "clientSecret", host: []string{"client_secret", "CLIENT_SECRET"}, field: "ClientSecret",
			doc: "The secret of the client."},
		{name: "privateKeyFile", field: "PrivateKeyFile", read: reads((*entry).privateKeyFile),
			doc: "A PEM file with the key that the client authenticates with instead of a secret."},
		{name: "clientMetadataUrl", host: []string{"client_metadata_url"}, field: "ClientMetadataURL", schema: "text",
			read: reads(func(e *entry, name []string, o *OAuth) { e.endpoint(name, &o.ClientMetadataURL) }),
			doc:  "The https URL of a client ID metadata document."},
		{name: "scopes", host: []string{"scope"}, field: "Scopes", read: reads((*entry).oauthScopes), schema: "scopes",
			doc: "The scopes to request. Default: what the server requests."},
		{name: "callbackPort", host: []string{"callback_port", "redirect_port"}, field: "CallbackPort", read: reads((*entry).callbackPort), schema: "port", example: "8080",
			doc: "The local port that the browser returns to. Default: any."},
		{name: "redirectUri", host: []string{"redirect_uri"}, field: "RedirectURI", read: reads((*entry).redirect),
			doc: "The registered URL that the browser returns to, such as http://localhost:8080/callback."},
		{name: "grant", field: "Grant", words: []string{string(GrantCode), string(GrantClient)},
			doc: "`authorization_code` (default): a user logs in with a browser; `client_credentials`: the client acts for itself."},
		{name: "authServerMetadataUrl", field: "AuthServerMetadataURL", schema: "text",
			read: reads(func(e *entry, name []string, o *OAuth) { e.endpoint(name, &o.AuthServerMetadataURL) }),
			doc:  "The URL of the authorization server's metadata. It is required for servers that announce none, and for a `clientSecret` without a terminal on which to confirm the one that the server announces."},
	}.made(OAuth{})
}

// webhookKeys returns the keys of a webhook. The URL and the secret come last, because checking
// them depends on the other keys.
func webhookKeys() table {
	return table{
		{name: "allowPrivate", field: "AllowPrivate", def: "false",
			doc: "Allow addresses that are not public, and plain http."},
		{name: "format", field: "Format", words: []string{"cloudevents", "slack", "standard"}, def: string(WebhookStandard),
			doc: "The format of the messages."},
		{name: "settle", field: "Settle", def: short(DefaultSettle), least: minSettle, never: true,
			doc: "How long a server must be up or down before the change is sent; `\"0\"`: every change is sent immediately."},
		{name: "types", field: "Types", words: WebhookTypes(),
			doc: "The types of events to send. Default: all."},
		{name: "servers", field: "Servers", globs: "server ids",
			doc: "Globs of server ids. Default: all."},
		{name: "uris", field: "URIs", globs: "resource URIs",
			doc: "Globs of URIs: only events about matching resources are sent."},
		{name: "url", field: "URL", read: reads((*entry).webhookURL), schema: "text", example: `"https://hooks.example/x"`,
			doc: "The https URL; http only with `allowPrivate`."},
		{name: "secret", field: "Secret", read: reads((*entry).webhookSecret), schema: "webhookSecret", example: `"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"`,
			doc: "The key that signs messages as Standard Webhooks: whsec_ and 24 to 64 bytes in base64. Required for the format `standard`."},
	}.made(Webhook{})
}

// hookKeys returns the keys of an incoming webhook. The secret comes after the scheme, which
// determines its format.
func hookKeys() table {
	return table{
		{name: "id", field: "ID", read: reads((*entry).hookID), schema: "hookId", example: `"repo"`,
			doc: "The last part of the URL: other programs send messages to /hooks/ID."},
		{name: "verify", field: "Verify", read: reads((*entry).hookVerify), words: HookSchemes(),
			doc: "How messages are signed: `github`, `stripe` and `slack` as these services do it, `standard-webhooks`, or `hmac`: the HMAC-SHA256 of the body in hexadecimal, with or without `sha256=` before it."},
		{name: "secret", field: "Secrets", read: reads((*entry).hookSecret), schema: "hookSecret", example: `"${HOOK_SECRET}"`,
			doc: "The key that verifies signatures: whsec_ and 24 to 64 bytes in base64 for `standard-webhooks`, at least 16 bytes otherwise. A list of up to 3 during a rotation."},
		{name: "header", field: "Header", read: reads((*entry).hookHeader), schema: "header", example: `"X-Signature-256"`,
			doc: "The header with the signature of `hmac`. Default: X-Signature-256."},
		{name: "touches", field: "Touches", read: reads((*entry).touches), schema: "touches",
			doc: "The resources to read when a message arrives: the id of a server and a glob of URIs."},
	}.made(Hook{})
}

// indexKeys returns the keys of the "index" object.
func indexKeys() table {
	return table{
		{name: "enabled", field: "Enabled", def: "false",
			doc: "Serve the index."},
		{name: "expose", field: "Expose", words: IndexDocuments(),
			doc: "The documents to serve. Default: all."},
		{name: "ttl", field: "TTL", least: time.Millisecond,
			doc: "How long a generated index is valid. Default: 5m."},
	}.made(Index{})
}

// made returns the table with the derived fields of its rows filled in. The keys are read into structs
// like of.
func (t table) made(of any) table {
	for i, k := range t {
		t[i].spellings = slices.Concat([]string{k.name}, k.also, k.host)
		known := false
		if t[i].at, known = reflect.TypeOf(of).FieldByName(k.field); !known && k.field != "" {
			panic("no field " + k.field)
		}
	}
	return t
}

func (k key) names() []string { return slices.Concat(k.spellings, k.adds) }

func (t table) names() (all []string) {
	for _, k := range t {
		all = append(all, k.names()...)
	}
	return all
}

func (t table) get(name string) key {
	return t[slices.IndexFunc(t, func(k key) bool { return k.name == name })]
}

// effective returns the keys that affect what is run, sent or enforced.
func (t table) effective() table {
	return slices.DeleteFunc(slices.Clone(t), func(k key) bool { return k.free })
}

// quoted returns the names of the keys as a Markdown list.
func (t table) quoted() string {
	var quoted []string
	for _, k := range t {
		quoted = append(quoted, "`"+k.name+"`")
	}
	return strings.Join(quoted, ", ")
}

// fill reads the key from the entry into its field. If the value is missing or invalid, the field
// keeps its default.
func (k key) fill(e *entry, into any) {
	if k.read != nil {
		k.read(e, k.spellings, into)
		return
	}
	switch p := k.in(into).Addr().Interface().(type) {
	case *bool:
		*p = e.boolean(k.def == "true", k.spellings...)
	case *time.Duration:
		byDefault, _ := time.ParseDuration(k.def) // an empty default means 0
		*p = e.duration(k.name, byDefault, k.least, k.never)
	case *int64:
		*p = e.size(k.name)
	case *[]string:
		*p = e.list(k.name, k.words, k.globs)
	case *string:
		if value, _, ok := e.text(k.spellings...); ok {
			*p = value
		}
	case *Secret:
		if value, f, ok := e.text(k.spellings...); ok {
			e.plaintext(k.name, f.value, f.path, quote(f.name))
			*p = NewSecret(value)
		}
	default: // a named string type with a list of words; another type needs a case here and in property
		if word := e.choice(k.def, k.words, k.spellings...); word != "" {
			reflect.ValueOf(p).Elem().SetString(word)
		}
	}
}

// shaped reports whether a value may be one of the key's: it has the right type and, if the key has a
// list of words, is one of them or refers to one.
func (k key) shaped(v *tree.Node) bool {
	if k.is != nil {
		return k.is(v)
	}
	if k.kinds != nil {
		return slices.Contains(k.kinds, v.Kind)
	}
	switch reflect.New(k.at.Type).Interface().(type) {
	case *bool:
		return v.Kind == tree.Bool
	case *[]string:
		return v.Kind == tree.List
	}
	return v.Kind == tree.String && (k.words == nil || slices.Contains(k.words, v.Text) || strings.Contains(v.Text, "${"))
}

// in returns the field of the struct at into.
func (k key) in(into any) reflect.Value {
	return reflect.ValueOf(into).Elem().FieldByIndex(k.at.Index)
}

func (k key) setZero(of any) {
	if k.field != "" {
		k.in(of).SetZero()
	}
}

// short formats a duration in its usual short form: 5m instead of 5m0s.
func short(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	return s
}

// schemaBase is the JSON Schema without the properties of objects that are defined by a table of
// keys.
//
//go:embed schema.json
var schemaBase []byte

// Schema returns the JSON Schema (draft 2020-12) of the file, for editors. It describes the
// structure of plain JSON: types, required keys, and keys that exclude each other. What it cannot
// express (duplicates, references, URLs, globs) is only checked by Load. Tests verify that both
// agree on the structure.
//
// Load does not use it for validation, because a validator only reports which keyword failed at
// which value, whereas the author of the file needs to know what to change.
func Schema() []byte {
	var schema map[string]any
	_ = json.Unmarshal(schemaBase, &schema) // valid JSON, as verified by tests
	defs, _ := schema["$defs"].(map[string]any)
	defs["lock"] = lockSchema()
	for name, properties := range map[string]map[string]any{
		"server": serverKeys().properties(), "oauth": oauthKeys().properties(), "webhook": webhookKeys().properties(), "hook": hookKeys().properties(), "index": indexKeys().properties(), "client": clientKeys().properties(),
	} {
		defs[name].(map[string]any)["properties"] = properties
	}
	text, _ := printable.Marshal(schema)
	var out bytes.Buffer
	_ = json.Indent(&out, text, "", "  ")
	out.WriteByte('\n')
	return out.Bytes()
}

// properties returns the schemas of the keys, by key name.
func (t table) properties() map[string]any {
	all := map[string]any{}
	for _, k := range t {
		all[k.name] = k.property(strings.ReplaceAll(k.doc, "`", `"`))
		for _, name := range k.also {
			all[name] = k.property(fmt.Sprintf("The same as %q.", k.name))
		}
	}
	return all
}

func (k key) property(description string) map[string]any {
	ref := func(name string) map[string]any { return map[string]any{"$ref": "#/$defs/" + name} }
	oneOf := func(words []string) []any {
		return []any{map[string]any{"enum": words}, ref("reference")}
	}
	p := map[string]any{"description": description}
	if k.example != "" {
		p["examples"] = []json.RawMessage{json.RawMessage(k.example)}
	}
	if k.def != "" {
		p["default"] = k.def
	}
	if k.schema != "" {
		p["$ref"] = "#/$defs/" + k.schema
		return p
	}
	switch reflect.New(k.at.Type).Interface().(type) {
	case *bool:
		p["type"] = "boolean"
		if k.def != "" {
			p["default"] = k.def == "true"
		}
	case *time.Duration:
		p["anyOf"] = []any{ref("duration")}
		if k.never {
			p["anyOf"] = []any{ref("duration"), map[string]any{"const": "0"}}
		}
	case *int64:
		p["$ref"] = "#/$defs/size"
	case *[]string:
		p["type"], p["items"] = "array", map[string]any{"type": "string"}
		if k.words != nil {
			p["items"] = map[string]any{"anyOf": oneOf(k.words)}
		}
	case *string, *Secret:
		p["type"] = "string"
	default:
		p["type"], p["anyOf"] = "string", oneOf(k.words)
	}
	return p
}

// A KeyText is the description of a key, as Markdown.
type KeyText struct{ Name, Text string }

// KeyTexts returns the descriptions of all server keys, in the order used in the manual.
func KeyTexts() []KeyText { return serverKeys().texts() }

// ClientKeyTexts is like KeyTexts for the keys of a client.
func ClientKeyTexts() []KeyText { return clientKeys().texts() }

func (t table) texts() (all []KeyText) {
	for _, k := range t {
		text := k.doc
		var more []string
		if k.def != "" {
			more = append(more, "default: `"+k.def+"`")
		}
		if k.least > time.Millisecond {
			more = append(more, "at least "+short(k.least))
		}
		if k.never {
			more = append(more, "`\"0\"`: never")
		}
		if len(more) > 0 {
			text += " " + strings.ToUpper(more[0][:1]) + strings.Join(more, ", ")[1:] + "."
		}
		if len(k.also) > 0 {
			text += " Other spellings: `" + strings.Join(k.also, "`, `") + "`."
		}
		all = append(all, KeyText{k.name, text})
	}
	return all
}

// foreignKeys returns server keys that other clients define and that do not affect how a server is
// connected or followed. They are ignored without a warning. Keys that do affect this but are not
// supported, such as baseUrl, are not included, because ignoring them would misinterpret the file.
func foreignKeys() []string {
	return append(unsupportedKeys(),
		"alwaysAllow", "alwaysLoad", "allowedTools", "author", "autoApprove", "autoRefreshOnListChanged",
		"autoStart", "autostart", "available_tools", "bundled", "callbackPort", "category", "clientName", "comment",
		"connectionTimeout", "debug", "default_tools_approval_mode", "dev", "disabledTools", "disabled_tools",
		"display_name", "enabledTools", "enabled_tools", "excludeTools", "excludedTools", "executor", "faviconUrl", "fromGalleryId", "gallery", "homepage",
		"icon", "iconPath", "icons", "includeTools", "initTimeout", "label", "lifecycle", "logo", "metadata", "name",
		"networkTimeout", "note", "notes", "oauth_resource", "options", "prompt", "provider", "remote", "required", "roots",
		"sampling_enabled", "settings", "source", "sourceFile", "startupTimeoutMs", "startup_timeout_ms", "startup_timeout_sec",
		"supports_parallel_tool_calls", "tags", "timeout", "timeoutMs", "title", "tokenCacheDir", "toolFilter", "toolTimeoutMs",
		"tool_timeout_sec", "trust", "version", "watchPaths")
}

// unsupportedKeys returns keys of other clients that change how to connect to a server in ways that
// mcptrack does not support.
func unsupportedKeys() []string {
	return []string{"headersHelper", "authProviderType", "targetAudience", "targetServiceAccount", "sandbox", "sandboxEnabled", "apiKey", "socket"}
}

// foreignOAuthKeys returns keys of the "oauth" object that other hosts use and that mcptrack
// ignores.
func foreignOAuthKeys() []string {
	return []string{"enabled", "authorizationUrl", "tokenUrl", "audiences", "audience", "tokenParamName",
		"registrationUrl", "issuer", "resource", "type", "clientName", "xaa", "authorizationServerIssuer", "tokenEndpointAuthMethod"}
}

// reportUnsupported warns about the entry's unsupported keys.
func (e *entry) reportUnsupported() {
	for _, name := range unsupportedKeys() {
		f, ok := e.present(name)
		if !ok || !e.server.Enabled || f.value.Kind == tree.Bool && !f.value.True() {
			continue
		}
		hint := "mcptrack connects to the server without it"
		if name == "headersHelper" {
			hint = `mcptrack connects to the server without it; put the values into "headers", with ${VAR}, ${file:PATH} or ${keyring:NAME}`
		}
		e.warnAt(f.key, f.path, CodeUnsupported, fmt.Sprintf("%s: %q is not supported", e.label, name), hint)
	}
}

// misnamed returns mcptrack's name for a key of another client that has the same meaning, but a
// name too different for suggest.Nearest.
func misnamed(name string) string {
	return map[string]string{
		"transportType": "type", "baseUrl": "url", "endpoint": "url",
		"environmentVariables": "env", "isActive": "enabled", "active": "enabled",
		"protocolVersion": "protocol", "workdir": "cwd", "workDir": "cwd", "workingDir": "cwd", "dir": "cwd", "directory": "cwd",
		"arguments": "args", "bearer_token": "headers", "mcp-servers": "mcpServers",
	}[name]
}
