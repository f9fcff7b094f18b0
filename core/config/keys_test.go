package config

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// sample returns a value of a key as JSON, different from its default.
func (k key[T]) sample() string {
	if k.example != "" {
		return k.example
	}
	switch k.field(new(T)).(type) {
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
func (k key[T]) beside() string {
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

// fields returns the server's fields that differ from those of a server without the key.
func (k key[T]) fields(t *testing.T, entry string) (changed []string) {
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
			text := fmt.Sprintf(`{"servers":{"docs":{%q:[[]]%s}}}`, name, k.beside())
			_, problems := Parse([]byte(text), "f", surroundings(t, nil))
			if !slices.ContainsFunc(problems, func(p Problem) bool {
				return p.Severity == SeverityError && (p.Path == "/servers/docs/"+name || strings.HasPrefix(p.Path, "/servers/docs/"+name+"/"))
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
	if err := json.Unmarshal(Schema(), &schema); err != nil {
		t.Fatal(err)
	}
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
	for name, own := range map[string][]string{"oauth": oauthKeys().names(), "webhook": webhookKeys().names(), "index": indexKeys().names()} {
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
		if k.Name == "safetyInterval" && !strings.HasSuffix(k.Text, "Default `5m`, at least 1s, `\"0\"`: never.") {
			t.Error(k.Text)
		}
	}
}
