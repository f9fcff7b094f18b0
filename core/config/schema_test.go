package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tailscale/hujson"
	"pgregory.net/rapid"
)

// structural reports whether there is a problem of the kind that the schema
// speaks about too.
func structural(problems Problems) bool {
	codes := []Code{CodeType, CodeValue, CodeMissing, CodeConflict, CodeID, CodeDuration, CodeEnv, CodeHeader}
	return slices.ContainsFunc(problems, func(p Problem) bool { // a bad value that came from a variable is a warning
		return p.Severity == SeverityError && slices.Contains(codes, p.Code)
	})
}

func compiled(t testing.TB) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(Schema()))
	if err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := compiler.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
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
	// null and "" are left out: they count as absent, which a schema cannot say.
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
		"trackResources": {true}, "trackTools": {false}, "trackPrompts": {true}, "include": {[]any{"a://**"}}, "exclude": {[]any{}},
		"read": {"digest", "none"}, "pollInterval": {"30s", "1h2m3.5s", "5", "-5s", "1ms2", "3µs", ".5s", "1.s", "${SET}"},
		"mode": {"auto", "poll", "push", "${SET}"}, "safetyInterval": {"0", "5m", "00", "5", "${SET}"},
		"catalogInterval": {"30s", "5", "${SET}"},
		"events": {"off", "all", "none", "${SET}", []any{"a.b", map[string]any{"name": "c", "arguments": map[string]any{"a": 1}, "uri": "/url"}},
			[]any{map[string]any{"name": "c", "uri": "url"}}, []any{map[string]any{"uri": "x://{id}"}}, []any{map[string]any{"name": "", "arguments": 1}},
			map[string]any{"types": "all", "delivery": "poll"}, map[string]any{"types": []any{"a"}, "delivery": "fax"}, map[string]any{"delivery": 1}},
		"onConnect": {[]any{}, []any{map[string]any{"tool": "t", "arguments": map[string]any{"a": 1}}}, []any{map[string]any{"tool": ""}},
			[]any{map[string]any{"tool": "t", "arguments": 1}}, []any{map[string]any{}}, []any{"t"}},
		"protocol": {"auto", "legacy", "modern", "old"}, "protocolEra": {"auto", "modern"},
		"connectTimeout": {"5s"}, "requestTimeout": {"5s"}, "shared": {false, true}, "unknown": {1}, "autoApprove": {[]any{}},
	}
	aliases := [][]string{{"type", "transport"}, {"cwd", "workingDirectory"}, {"url", "serverUrl", "httpUrl"}, {"protocol", "protocolEra"}}
	names := slices.Sorted(maps.Keys(good))
	ids := []any{"a", "b", "", " ", "ü ✓", "a\u0007", "a\u200bb", "a\u00a0", strings.Repeat("ä", 128), strings.Repeat("ä", 129)}
	server := func(t *rapid.T) map[string]any {
		out := map[string]any{}
		for range rapid.IntRange(0, 5).Draw(t, "keys") {
			name := rapid.SampledFrom(names).Draw(t, "key")
			if name != "command" && rapid.IntRange(0, 9).Draw(t, "junk") == 0 { // hosts have other forms of it, which the schema has not
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
		for _, shape := range rapid.SliceOfN(rapid.SampledFrom([]string{"list", "named", "vscode", "inputs", "index", "webhooks", "junk"}), 1, 2).Draw(t, "shapes") {
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

// TestSchemaAgreesOnFiles does so over testdata.
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
		if err != nil {
			t.Fatal(err)
		}
		agree(t, s, opts, data)
	}
}
