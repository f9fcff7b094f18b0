package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tailscale/hujson"
	"pgregory.net/rapid"
)

// sample returns a value of a key as JSON, different from its default.
func (k key) sample() string {
	if k.example != "" {
		return k.example
	}
	switch reflect.New(k.at.Type).Interface().(type) {
	case *bool:
		return fmt.Sprint(k.def != "true")
	case *time.Duration:
		return `"7m"`
	case *[]string:
		return fmt.Sprintf("[%q]", append(slices.Clone(k.words), "x")[0])
	}
	return fmt.Sprintf("%q", append(slices.Clone(k.words), "x")[max(0, len(k.words)-1)])
}

// beside returns the keys without which a server with the key would be invalid.
func (k key) beside() string {
	switch {
	case k.name == "command" || k.name == "url":
		return ""
	case k.use == byURLs || k.name == "type" || k.name == "oauth":
		return `,"url":"https://h/mcp"`
	case k.use == byCatalogs:
		return `,"type":"catalog","url":"https://h/mcp"`
	}
	return `,"command":"go"`
}

// fields returns the fields that differ from a server without the key.
func (k key) fields(t *testing.T, entry string) (changed []string) {
	t.Helper()
	read := func(entry string) reflect.Value {
		c, problems := Parse([]byte(`{"servers":[{"id":"docs"`+entry+`}]}`), "f", surroundings(t, nil))
		if c == nil {
			t.Fatalf("%s: %v", entry, problems)
		}
		return reflect.ValueOf(c.Servers[0])
	}
	plain := `,"command":"go"`
	if k.name == "command" {
		plain = `,"command":"npx"`
	}
	if base := k.beside(); base != "" {
		plain = base
	}
	with, without := read(entry), read(plain)
	for _, f := range reflect.VisibleFields(with.Type()) {
		if !f.Anonymous && f.Name != "Intent" && !equal(with.FieldByIndex(f.Index), without.FieldByIndex(f.Index)) {
			changed = append(changed, f.Name)
		}
	}
	return changed
}

// Every row of the table is read: its value reaches the server, a wrong one is reported, and all
// its spellings are known.
func TestEveryKeyIsRead(t *testing.T) {
	t.Parallel()
	for _, k := range serverKeys() {
		entry := fmt.Sprintf(`%s,%q:%s`, k.beside(), k.name, k.sample())
		if k.name == "envFile" {
			entry = `,"command":"go","envFile":"vars.env"`
		}
		if k.name == "cwd" {
			entry = `,"command":"go","cwd":"home"`
		}
		if k.name != "id" && len(k.fields(t, entry)) == 0 {
			t.Errorf("%s: the value reaches no field of the server", entry)
		}
		for _, name := range append([]string{k.name}, k.also...) {
			text, at := fmt.Sprintf(`{"servers":{"docs":{%q:[[]]%s}}}`, name, k.beside()), "/servers/docs/"+name
			if k.is != nil { // elsewhere it is another program's
				text, at = fmt.Sprintf(`{"servers":[{"id":"docs",%q:[[]]%s}]}`, name, k.beside()), "/servers/0/"+name
			}
			_, problems := Parse([]byte(text), "f", surroundings(t, nil))
			if !slices.ContainsFunc(problems, func(p Problem) bool {
				return (p.Severity == SeverityError || p.Code == CodeForeign) && (p.Path == at || strings.HasPrefix(p.Path, at+"/"))
			}) {
				t.Errorf("%s: a wrong value is not reported: %v", text, problems)
			}
		}
		for _, name := range k.names() {
			text := fmt.Sprintf(`{"servers":{"docs":{%q:null%s}}}`, name, k.beside())
			if _, problems := Parse([]byte(text), "f", surroundings(t, nil)); problems.Has(CodeUnknownKey) {
				t.Errorf("%s: %v", text, problems)
			}
			if slices.Contains(foreignKeys(), name) {
				t.Errorf("%s is read and ignored", name)
			}
		}
		if k.doc == "" {
			t.Errorf("%s has no doc", k.name)
		}
	}
}

// A change of a key opens a new connection, unless it is live, and changes the intent, unless it
// is free.
func TestChangeOfEveryKey(t *testing.T) {
	t.Parallel()
	read := func(entry string) Server {
		c, problems := Parse([]byte(`{"servers":{"docs":{`+strings.TrimPrefix(entry, ",")+`}}}`), "f", surroundings(t, nil))
		if c == nil {
			t.Fatalf("%s: %v", entry, problems)
		}
		return c.Servers[0]
	}
	for _, k := range serverKeys() {
		if k.beside() == "" || k.name == "id" || k.name == "cwd" || k.name == "envFile" { // other tests have them
			continue
		}
		before, after := read(k.beside()), read(fmt.Sprintf(`%s,%q:%s`, k.beside(), k.name, k.sample()))
		if same := after.SameConnection(before); same != k.live {
			t.Errorf("%s: the connection stays: %t", k.name, same)
		}
		if same := before.Intent.Digest == after.Intent.Digest; same != k.free {
			t.Errorf("%s: the intent stays: %t", k.name, same)
		}
	}
}

// init keeps every key of a server, except those that it decides itself.
func TestImportKeepsEveryKey(t *testing.T) {
	t.Parallel()
	for _, k := range serverKeys() {
		if slices.Contains([]string{"id", "enabled", "disabled", "trackResources"}, k.name) {
			continue
		}
		text := fmt.Sprintf(`{"servers":{"docs":{%q:%s%s}}}`, k.name, k.sample(), k.beside())
		if k.name == "type" {
			text = `{"servers":{"docs":{"type":"sse","url":"https://h/mcp"}}}`
		}
		servers, problems := Import(write(t, filepath.Join(t.TempDir(), "mcp.json"), text), surroundings(t, nil), &Names{})
		if len(servers) != 1 || !slices.ContainsFunc(servers[0].Keys, func(kept Key) bool { return kept.Name == k.name }) {
			t.Errorf("%s: %v, %v", text, servers, problems)
		}
	}
}

// The schema has every key of our own format with its text, and every example is valid.
func TestSchemaHasEveryKey(t *testing.T) {
	t.Parallel()
	var schema struct {
		Defs map[string]struct {
			Properties map[string]struct{ Description string }
		} `json:"$defs"`
	}
	must(t, json.Unmarshal(Schema(), &schema))
	validator := compiled(t)
	for _, k := range serverKeys() {
		for _, name := range append([]string{k.name}, k.also...) {
			if schema.Defs["server"].Properties[name].Description == "" {
				t.Errorf("%s is not in the schema, or has no description", name)
			}
		}
		if k.name != "id" {
			agree(t, validator, surroundings(t, nil), fmt.Appendf(nil, `{"servers":{"docs":{%q:%s%s}}}`, k.name, k.sample(), k.beside()))
		}
	}
	for name, own := range map[string][]string{"oauth": oauthKeys().names(), "webhook": webhookKeys().names(), "hook": hookKeys().names(), "index": indexKeys().names(), "client": clientKeys().names()} {
		for key := range schema.Defs[name].Properties {
			if !slices.Contains(own, key) {
				t.Errorf("%s of %s is not read", key, name)
			}
		}
	}
}

func TestKeyTexts(t *testing.T) {
	t.Parallel()
	for _, k := range KeyTexts() {
		if strings.ContainsAny(k.Text, "\n|") || !strings.HasSuffix(k.Text, ".") {
			t.Errorf("%s: %q cannot be a row of a table", k.Name, k.Text)
		}
		if k.Name == "safetyInterval" && !strings.HasSuffix(k.Text, "Default: `5m`, at least 1s, `\"0\"`: never.") {
			t.Error(k.Text)
		}
	}
}

// structural reports whether there is a problem that the schema also covers.
func structural(problems Problems) bool {
	codes := []Code{CodeType, CodeValue, CodeMissing, CodeConflict, CodeID, CodeDuration, CodeEnv, CodeHeader}
	return slices.ContainsFunc(problems, func(p Problem) bool { // a bad value that came from a variable is a warning
		return p.Code == CodeForeign || p.Severity == SeverityError && slices.Contains(codes, p.Code)
	})
}

func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	must(t, err)
	compiler := jsonschema.NewCompiler()
	must(t, compiler.AddResource("schema.json", doc))
	s, err := compiler.Compile("schema.json")
	must(t, err)
	return s
}

func agree(t interface{ Errorf(string, ...any) }, s *jsonschema.Schema, opts Options, text []byte) {
	standard, err := hujson.Standardize(bytes.Clone(text))
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(standard))
	if err != nil {
		t.Errorf("%s: %v", text, err)
		return
	}
	schemaErr := s.Validate(instance)
	_, problems := Parse(text, "f", opts)
	if (schemaErr != nil) != structural(problems) {
		t.Errorf("%s\nschema: %v\nParse: %v", text, schemaErr, problems)
	}
}

// TestSchemaAgreesOnGenerated compares schema and Parse over generated files: any
// mixture of keys with good and bad values.
func TestSchemaAgreesOnGenerated(t *testing.T) {
	s, opts := compiled(t), surroundings(t, map[string]string{"SET": "30s"})
	// null and "" are left out: they count as absent, which a schema cannot express.
	junk := []any{true, false, 1, 1.5, " ", "text", []any{}, []any{"a"}, []any{1}, []any{nil}, map[string]any{},
		map[string]any{"a": "b"}, map[string]any{"a": 1}, map[string]any{"a": nil}, map[string]any{"a": true},
		map[string]any{"": "x"}, map[string]any{"a=b": "x"}, map[string]any{"a b": "x"}}
	good := map[string][]any{
		"description": {"d"}, "enabled": {true, false}, "disabled": {true, false},
		"type": {"stdio", "http", "sse", "streamable-http", "streamableHttp", "local", "remote", "catalog", "pigeon"}, "transport": {"stdio", "http", "sse", "catalog"},
		"command": {"go"}, "args": {[]any{"a"}}, "env": {map[string]any{"A": "b", "N": 1, "Z": nil}}, "envFile": {"vars.env"},
		"cwd": {"home"}, "workingDirectory": {"home"}, "url": {"https://h/mcp"}, "serverUrl": {"https://h/mcp"},
		"httpUrl": {"https://h/mcp"}, "headers": {map[string]any{"X-A": "b"}, map[string]any{}},
		"oauth": {true, map[string]any{"clientId": "a", "clientSecret": "${SET}", "scopes": []any{"a"}, "callbackPort": 8080, "grant": "client_credentials"},
			map[string]any{"clientId": 1}, map[string]any{"scopes": "a b", "grant": "implicit"}, map[string]any{"callbackPort": 0}, map[string]any{"redirectUri": "http://localhost:8080/callback"}, map[string]any{"redirectUri": 1}, map[string]any{"scopes": []any{1}},
			map[string]any{"clientMetadataUrl": "https://h/client.json", "privateKeyFile": "key.pem", "authServerMetadataUrl": "https://h/meta"}},
		"trackResources": {true}, "trackTools": {false}, "trackPrompts": {true}, "trackSkills": {true}, "include": {[]any{"a://**"}}, "exclude": {[]any{}},
		"read": {"digest", "none"}, "pollInterval": {"30s", "1h2m3.5s", "5", "-5s", "1ms2", "3µs", ".5s", "1.s", "${SET}"},
		"mode": {"auto", "poll", "push", "${SET}"}, "safetyInterval": {"0", "5m", "00", "5", "${SET}"},
		"catalogInterval": {"30s", "5", "${SET}"},
		"events": {"off", "all", "none", "${SET}", []any{"a.b", map[string]any{"name": "c", "arguments": map[string]any{"a": 1}, "uri": "/url"}},
			[]any{map[string]any{"name": "c", "uri": "url"}}, []any{map[string]any{"uri": "x://{id}"}}, []any{map[string]any{"name": "", "arguments": 1}},
			map[string]any{"types": "all", "delivery": "poll"}, map[string]any{"types": []any{"a"}, "delivery": "fax"}, map[string]any{"delivery": 1}},
		"onConnect": {[]any{}, []any{map[string]any{"tool": "t", "arguments": map[string]any{"a": 1}}}, []any{map[string]any{"tool": ""}},
			[]any{map[string]any{"tool": "t", "arguments": 1}}, []any{map[string]any{}}, []any{"t"}},
		"protocol": {"auto", "legacy", "modern", "old"}, "protocolEra": {"auto", "modern"},
		"connectTimeout": {"5s"}, "requestTimeout": {"5s"}, "shared": {false, true, "folder", "machine", "all"}, "idle": {"1m", "5"},
		"lock":       {map[string]any{}, map[string]any{"wording": "allow", "L005": "hold"}, map[string]any{"wording": "deny"}, map[string]any{"words": "hold"}, map[string]any{"wording": 1}, map[string]any{"added": "${SET}"}, map[string]any{"added": nil}},
		"maxResult":  {"64KiB", "2048", "64 KiB", "KiB", "${SET}"},
		"pinContent": {[]any{"a://**"}, "a"}, "unknown": {1}, "autoApprove": {[]any{}},
	}
	aliases := [][]string{{"type", "transport"}, {"cwd", "workingDirectory"}, {"url", "serverUrl", "httpUrl"}, {"protocol", "protocolEra"}}
	names := slices.Sorted(maps.Keys(good))
	ids := []any{"a", "b", "", " ", "ü ✓", "a\u0007", "a\u200bb", "a\u00a0", strings.Repeat("ä", 128), strings.Repeat("ä", 129)}
	server := func(t *rapid.T) map[string]any {
		out := map[string]any{}
		for range rapid.IntRange(0, 5).Draw(t, "keys") {
			name := rapid.SampledFrom(names).Draw(t, "key")
			if name != "command" && rapid.IntRange(0, 9).Draw(t, "junk") == 0 { // hosts have other forms of it, which the schema lacks
				out[name] = rapid.SampledFrom(junk).Draw(t, "value")
			} else {
				out[name] = rapid.SampledFrom(good[name]).Draw(t, "value")
			}
		}
		if rapid.Bool().Draw(t, "reachable") {
			out[rapid.SampledFrom([]string{"command", "url"}).Draw(t, "way")] = "https://h/mcp"
		}
		// Whether two spellings hold the same is beyond a schema.
		for _, group := range aliases {
			found := false
			for _, name := range group {
				if _, ok := out[name]; ok && found {
					delete(out, name)
				} else if ok {
					found = true
				}
			}
		}
		return out
	}
	rapid.Check(t, func(t *rapid.T) {
		root := map[string]any{}
		for _, shape := range rapid.SliceOfN(rapid.SampledFrom([]string{"list", "named", "vscode", "inputs", "index", "webhooks", "hooks", "clients", "junk"}), 1, 2).Draw(t, "shapes") {
			n := rapid.IntRange(0, 2).Draw(t, "servers")
			list, byName := []any{}, map[string]any{}
			for range n {
				entry := server(t)
				byName[rapid.SampledFrom(ids).Draw(t, "name").(string)] = entry
				entry = maps.Clone(entry)
				if rapid.IntRange(0, 9).Draw(t, "id") > 0 {
					entry["id"] = rapid.SampledFrom(append(ids, 5, nil)).Draw(t, "id")
				}
				list = append(list, entry)
			}
			switch shape {
			case "list":
				root["servers"] = list
			case "named":
				root["mcpServers"] = byName
			case "vscode":
				root["servers"] = byName
			case "inputs":
				root["inputs"] = rapid.SampledFrom([]any{[]any{}, []any{map[string]any{"id": "x"}}, []any{map[string]any{"id": ""}},
					[]any{map[string]any{}}, []any{1}, 5, map[string]any{}}).Draw(t, "inputs")
			case "index":
				root["index"] = rapid.SampledFrom([]any{map[string]any{}, map[string]any{"enabled": true, "expose": []any{"full"}, "ttl": "1m"},
					map[string]any{"expose": []any{"all"}}, map[string]any{"expose": "full"}, map[string]any{"expose": []any{1}},
					map[string]any{"enabled": "yes"}, map[string]any{"ttl": 5}, map[string]any{"ttl": "5"}, true}).Draw(t, "index")
			case "webhooks":
				hook := map[string]any{"url": "https://h/x", "secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"}
				for key, values := range map[string][]any{
					"url": {5}, "secret": {true, "whsec", "${TOKEN}"}, "format": {"slack", "cloudevents", "slak", 1}, "settle": {"0", "5m", 5, "x"},
					"types": {[]any{}, []any{"resource.updated"}, []any{"resource"}, []any{1}, "list.changed"}, "servers": {[]any{"a*"}, "a", []any{1}},
					"uris": {[]any{"file:///**"}, 5}, "allowPrivate": {true, "yes"},
				} {
					switch rapid.IntRange(0, 5).Draw(t, key) {
					case 0:
						hook[key] = rapid.SampledFrom(values).Draw(t, key)
					case 1:
						delete(hook, key)
					}
				}
				root["webhooks"] = rapid.SampledFrom([]any{[]any{hook}, []any{}, []any{"https://h/x"}, hook, "https://h/x"}).Draw(t, "webhooks")
			case "hooks":
				hook := map[string]any{"id": "repo", "verify": "github", "secret": "0123456789abcdef"}
				for key, values := range map[string][]any{
					"id": {5, "a/b", "", " ", "${SET}", strings.Repeat("a", 65)}, "verify": {"slack", "stripe", "hmac", "standard-webhooks", "gitlab", true},
					"secret":  {true, "short", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "${TOKEN}", []any{}, []any{"0123456789abcdef", "${TOKEN}"}, []any{"x"}, []any{1}, []any{"${A}", "${A}", "${A}", "${A}"}},
					"header":  {"X-Hash", "a b", 1},
					"touches": {[]any{}, []any{map[string]any{"server": "a"}}, []any{map[string]any{"uri": "**"}}, []any{"a"}, "a", []any{map[string]any{"server": 1, "uri": "**"}}, []any{map[string]any{"server": "", "uri": ""}}},
				} {
					switch rapid.IntRange(0, 5).Draw(t, key) {
					case 0:
						hook[key] = rapid.SampledFrom(values).Draw(t, key)
					case 1:
						delete(hook, key)
					}
				}
				root["hooks"] = rapid.SampledFrom([]any{[]any{hook}, []any{}, []any{"repo"}, hook, "repo"}).Draw(t, "hooks")
			case "clients":
				client := map[string]any{"token": "${TOKEN}", "deny": []any{"*delete*"}}
				for key, values := range map[string][]any{
					"token": {5, "short", "0123456789abcdef", "a token with spaces"}, "folder": {"/home/me/**", " ", 1}, "servers": {[]any{"a*"}, "a", []any{1}}, "allow": {[]any{"file:///**"}, true},
				} {
					if rapid.Bool().Draw(t, key) {
						client[key] = rapid.SampledFrom(values).Draw(t, key)
					}
				}
				root["clients"] = rapid.SampledFrom([]any{map[string]any{"ci": client}, map[string]any{"c i": client}, map[string]any{"ci": "x"}, map[string]any{}, []any{client}}).Draw(t, "clients")
			case "junk":
				root[rapid.SampledFrom([]string{"servers", "mcpServers", "other"}).Draw(t, "key")] = rapid.SampledFrom(junk).Draw(t, "value")
			}
		}
		text, err := json.Marshal(root)
		if err != nil {
			t.Fatal(err)
		}
		agree(t, s, opts, text)
	})
}

// TestSchemaAgreesOnFiles compares schema and Parse over testdata.
func TestSchemaAgreesOnFiles(t *testing.T) {
	s, opts := compiled(t), surroundings(t, map[string]string{"TOKEN": "x"})
	files, err := filepath.Glob("testdata/*.json")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		if filepath.Base(file) == "wrapperless.json" { // of a plugin; not a form to write
			continue
		}
		data, err := os.ReadFile(file)
		must(t, err)
		agree(t, s, opts, data)
	}
}
