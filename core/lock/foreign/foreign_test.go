package foreign

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/lock"
)

// pin is a mcp-pin.lock. The hashes are from its published vectors.
const pin = `{
  "lockfileVersion": 1,
  "about": "x",
  "servers": {
    "weather": {
      "id": "0123456789abcdef",
      "setHash": "dbc6a9bbec4bcc2a77ce357dc0d96d15a053da10ddefc0b4bdc1a48507df7521",
      "tools": [
        {"name": "alerts", "hash": "d5c24fc1d6b0b6f4364bb161840a535e38c8c1d90aaff5f7e3e99c993d7fc5c0",
         "definition": {"name":"alerts","description":"Weather alerts for a state.","inputSchema":{"type":"object","properties":{"state":{"type":"string"}}}}},
        {"name": "weather", "hash": "f6d1913a45f2a5ea95ceb161b4e08eed245a1808044f3a358705d2641b6fb37d",
         "definition": {"name":"weather","description":"Get the current weather for a city.","inputSchema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}
      ],
      "promptsHash": "771716d5e841d853ebb9fb3f8d18bf6a5e8e8470f151a2b0ec0848955f53a92a",
      "prompts": [
        {"name": "forecast", "hash": "ee0adede61653c724c5cd5aa105c652e72d6485e4c8c7a5ad501ccf4482fdcba",
         "definition": {"name":"forecast","description":"Ask for a forecast.","arguments":[{"name":"city","required":true}]}}
      ],
      "instructionsHash": "59b91e0aff7e5e13f5c7eb890497066a703efae55ff61eee2151081704b8ff64",
      "instructions": "Use the weather tool for forecasts."
    },
    "none": {"setHash": "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "tools": [], "instructionsHash": null, "instructions": null}
  }
}`

func TestPin(t *testing.T) {
	t.Parallel()
	l, w, err := Parse([]byte(pin))
	if err != nil || w != nil {
		t.Fatal(w, err)
	}
	if _, err := lock.Marshal(l); err != nil {
		t.Fatal(err)
	}
	s := l.Servers["weather"]
	if len(s.Items[lock.SectionTools]) != 2 || len(s.Items[lock.SectionPrompts]) != 1 || len(s.Items[lock.SectionInstructions]) != 1 {
		t.Errorf("%+v", s)
	}
	if none := l.Servers["none"]; none.Items[lock.SectionPrompts] != nil || len(none.Items[lock.SectionInstructions]) != 0 {
		t.Errorf("%+v", none)
	}
	now := lock.Observation{Variant: "legacy", Items: map[lock.Section][]lock.Item{
		lock.SectionTools: {l.Hashing.Item(lock.SectionTools, []byte(`{"name":"alerts"}`)), s.Items[lock.SectionTools][1]}}}
	if drifts := lock.Compare(s, now); len(drifts) != 1 || drifts[0].Key != "alerts" || drifts[0].Old.Hash == "" {
		t.Errorf("%+v", drifts)
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	edit := func(old, new string) string {
		if !strings.Contains(pin, old) {
			t.Fatal(old)
		}
		return strings.Replace(pin, old, new, 1)
	}
	for name, data := range map[string]string{
		"server weather: the definition of weather does not match its hash": edit("Get the current", "Get the last"),
		"the definition of alert does not match its hash and name":          edit(`"name": "alerts"`, `"name": "alert"`),
		"the hash of all tools does not match":                              edit("dbc6a9bb", "dbc6a9bc"),
		"the hash of all prompts does not match":                            edit("771716d5", "771716d6"),
		"the instructions do not match their hash":                          edit("Use the", "Use a"),
		"the instructions have no hash":                                     edit(`"instructionsHash": "59b91e0aff7e5e13f5c7eb890497066a703efae55ff61eee2151081704b8ff64",`, ``),
		"the definition of alerts is invalid: it is not a JSON object":      edit(`{"name":"alerts","description":"Weather alerts for a state.","inputSchema":{"type":"object","properties":{"state":{"type":"string"}}}}`, `[]`),
		"server none is null":                                               edit(`"none": {`, `"none": null, "x": {`),
		"line 2: duplicate object member name":                              edit(`"lockfileVersion": 1,`, `"lockfileVersion": 1, "lockfileVersion": 1,`),
		"lockfileVersion is 2":                                              edit(`"lockfileVersion": 1`, `"lockfileVersion": 2`),
		"schema_version is 4":                                               `{"schema_version": 4}`,
		"it is neither a mcp-pin.lock nor a warden.lock":                    `{}`,
		"the value has the wrong type at /servers/weather/prompts":          edit(`"prompts": [`, `"prompts": 3, "x": [`),
		"unexpected EOF":                                                    pin[:len(pin)/2],
		"larger than 16 MiB":                                                pin + strings.Repeat(" ", MaxFile),
		"tools: x is listed twice":                                          `{"schema_version":1,"tools":[{"name":"x"},{"name":"x"}]}`,
		"resources:  is listed twice, or has no name":                       `{"schema_version":1,"resources":[{"name":"x"}]}`,
	} {
		if l, w, err := Parse([]byte(data)); err == nil || !strings.Contains(err.Error(), name) || l != nil || w != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestWarden has the hashes that mcp-warden 0.3.0 wrote for its own test server.
func TestWarden(t *testing.T) {
	t.Parallel()
	_, w, err := Parse([]byte(`{
		"schema_version": 3,
		"server": {"command": "python", "args": ["clean_server.py"]},
		"tools": [
			{"name": "list_dir", "description_hash": "sha256:86ffef9c802f84e109f8e4ffba6d5dbd379eb1366d427bd5cb46e77ae1f24e3f",
			 "input_schema_hash": "sha256:923b083c9bcab2e3d3e07c7d9b4401688ad9f3d5e2c2f0c48fcd43052bdcb71b"},
			{"name": "bare", "description_hash": "` + hash(nil, `""`) + `", "input_schema_hash": "` + hash(nil, `{}`) + `"}],
		"resources": [{"uri": "file:///etc/motd", "name": "motd", "mime_type": "text/plain",
			"description_hash": "sha256:14ec0d6ac27d5638dc9616a064e386f712012886fa96aa756c8cd623bb966e89"}],
		"prompts": [{"name": "summarize", "description_hash": "sha256:6740f991cded1943c70e3bf53ead9f3dcbd6d201e5bc833bbe0a781f454d273d",
			"arguments_hash": "sha256:c5dbdde6b9ec63a025c51567c4c33496f7dffc2b415b03cd8467d1ded44493ae"},
			{"name": "short", "description_hash": "` + hash(nil, `""`) + `", "arguments_hash": "` + hash([]byte(`[{"name":"a","description":null,"required":null}]`), "") + `"}]
	}`))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w.Command, []string{"python", "clean_server.py"}) || w.URL != "" {
		t.Errorf("%+v", w)
	}
	for _, test := range []struct {
		section    lock.Section
		definition string
		want       string
	}{
		{lock.SectionTools, `{"name":"list_dir","description":"List directory entries.","inputSchema":{"type":"object","required":["path"],"properties":{"path":{"type":"string"}}}}`, "true []"},
		{lock.SectionTools, `{"name":"list_dir","description":"List directory entries.","inputSchema":{"type":"object","required":["path"],"properties":{"path":{"type":"string"}}},"title":"x","annotations":{}}`, "true [annotations title]"},
		{lock.SectionTools, `{"name":"list_dir","description":"List all.","inputSchema":{"type":"object","required":["path"],"properties":{"path":{"type":"string"}}}}`, "false []"},
		{lock.SectionTools, `{"name":"list_dir","description":"List directory entries.","inputSchema":{"type":"object","properties":{"path":{"type":"string"}}}}`, "false []"},
		{lock.SectionTools, `{"name":"list_dir"}`, "false []"},
		{lock.SectionTools, `{"name":"other"}`, "false []"},
		{lock.SectionTools, `{"name":"bare"}`, "true []"},
		{lock.SectionTools, `{"name":"bare","description":null}`, "true []"},
		{lock.SectionTools, `{"name":"bare","a":1,"a":2}`, "false []"},
		{lock.SectionResources, `{"uri":"file:///etc/motd","name":"motd","description":"Message of the day","mimeType":"text/plain","size":3}`, "true [size]"},
		{lock.SectionResources, `{"uri":"file:///etc/motd","name":"motd","description":"Message of the day"}`, "false []"},
		{lock.SectionResources, `{"uri":"file:///etc/motd","name":"x","description":"Message of the day","mimeType":"text/plain"}`, "false []"},
		{lock.SectionPrompts, `{"name":"summarize","description":"Summarize a document.","arguments":[{"name":"text","description":"Text to summarize","required":true}]}`, "true []"},
		{lock.SectionPrompts, `{"name":"summarize","description":"Summarize a document.","arguments":[{"name":"text","description":"Text to summarize"}]}`, "false []"},
		{lock.SectionPrompts, `{"name":"summarize","description":"Summarize a document."}`, "false []"},
		{lock.SectionPrompts, `{"name":"short","arguments":[{"name":"a"}]}`, "true []"},
		{lock.SectionPrompts, `{"name":"short","arguments":[null]}`, "false []"},
		{lock.SectionTemplates, `{"uriTemplate":"bare"}`, "false []"},
	} {
		approved, unchecked := w.Approves(test.section, lock.DefaultHashing().Item(test.section, []byte(test.definition)))
		if got := fmt.Sprint(approved, " ", unchecked); got != test.want {
			t.Errorf("%s: %s, want %s", test.definition, got, test.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(pin)
	f.Add(`{"schema_version":1,"server":{"url":"x"},"tools":[{"name":"x"}],"resources":[{"uri":"y"}],"prompts":[{"name":"z","arguments_hash":"a"}]}`)
	f.Fuzz(func(t *testing.T, data string) {
		l, w, err := Parse([]byte(data))
		if (l != nil) == (w != nil) && err == nil || err != nil && strings.Contains(err.Error(), "\n") {
			t.Fatalf("%v, %v, %v", l, w, err)
		}
		if w != nil {
			w.Approves(lock.SectionPrompts, lock.DefaultHashing().Item(lock.SectionPrompts, []byte(data)))
		}
	})
}
