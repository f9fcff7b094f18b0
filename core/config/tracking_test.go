package config

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEvents(t *testing.T) {
	for text, want := range map[string]Events{
		`"auto"`: {}, `"off"`: {Off: true}, `"all"`: {All: true}, `"${EVENTS}"`: {All: true}, `[]`: {}, `{}`: {}, `null`: {},
		`{"delivery":"poll"}`:               {Delivery: DeliveryPoll},
		`{"types":"all","delivery":"auto"}`: {All: true},
		`{"types":["a"],"delivery":"push"}`: {Types: []EventType{{Name: "a"}}, Delivery: DeliveryPush},
		`{"delivery":"webhook"}`:            {Delivery: DeliveryWebhook},
		`["build.done",{"name":"page.changed","arguments":{"space":"${SPACE}","big":12345678901234567890},"uri":"/url"},{"name":"n","uri":"wiki://{id}"}]`: {Types: []EventType{
			{Name: "build.done"}, {Name: "page.changed", Arguments: json.RawMessage(`{"big":12345678901234567890,"space":"s3cret"}`), URI: "/url"}, {Name: "n", URI: "wiki://{id}"}}},
	} {
		got := parsed(t, `{"servers":[{"id":"a","command":"go","events":`+text+`}]}`, map[string]string{"EVENTS": "all", "SPACE": "s3cret"})
		if diff := cmp.Diff(want, got.Events); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if strings.Contains(text, "SPACE") && (len(got.Secrets) != 1 || got.Secrets[0].Reveal() != "s3cret") {
			t.Errorf("%s: %d secrets", text, len(got.Secrets))
		}
	}
}

func TestEventProblems(t *testing.T) {
	for text, want := range map[string]Code{
		`"some"`: CodeValue, `7`: CodeType, `true`: CodeType, `[7]`: CodeType, `[""]`: CodeValue, `[{}]`: CodeMissing, `[{"name":7}]`: CodeType,
		`[{"name":""}]`: CodeValue, `[{"name":"a","arguments":[]}]`: CodeType, `[{"name":"a","uri":7}]`: CodeType, `[{"name":"a","uri":"url"}]`: CodeValue,
		`{"delivery":"pigeon"}`: CodeValue, `{"delivery":7}`: CodeType, `{"types":7}`: CodeType, `{"type":"all"}`: CodeUnknownKey, `[{"name":"a","url":"/x"}]`: CodeUnknownKey,
		`[` + strings.Repeat(`"a",`, 100) + `"a"]`: CodeRange,
	} {
		_, problems := Parse([]byte(`{"servers":[{"id":"a","command":"go","events":`+text+`}]}`), "f", surroundings(t, nil))
		if len(problems) != 1 || problems[0].Code != want || !strings.HasPrefix(problems[0].Path, "/servers/0/events") {
			t.Errorf("%.60s: %v, want %s", text, problems, want)
		}
	}
}

func TestCatalog(t *testing.T) {
	got := parsed(t, `{"mcpServers":{"portal":{"type":"catalog","url":"https://h.example/base/","description":"d",
	  "headers":{"X-Key":"${KEY}"},"catalogInterval":"1m","requestTimeout":"5s"}}}`, map[string]string{"KEY": "s3cret"})
	want := Server{ID: "portal", Description: "d", Enabled: true, Transport: TransportCatalog,
		URL: NewSecret("https://h.example/base/"), Headers: map[string]Secret{"X-Key": NewSecret("s3cret")}, Secrets: []Secret{NewSecret("s3cret")},
		Tracking: Tracking{Read: ReadNone, Mode: ModeAuto}, CatalogInterval: time.Minute, Protocol: ProtocolAuto, RequestTimeout: 5 * time.Second}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := parsed(t, `{"servers":[{"id":"p","transport":"catalog","url":"https://h/"}]}`, nil); got.CatalogInterval != DefaultCatalogInterval {
		t.Errorf("interval %s by default", got.CatalogInterval)
	}
	if got := parsed(t, `{"servers":[{"id":"p","url":"https://h/"}]}`, nil); got.CatalogInterval != 0 {
		t.Errorf("interval %s without a catalog", got.CatalogInterval)
	}
}

// A catalog is not tracked, whatever its entry says.
func TestCatalogIsNotTracked(t *testing.T) {
	c, problems := Parse([]byte(`{"servers":[{"id":"p","type":"catalog","url":"https://h/","trackResources":true,"trackTools":true,
	  "include":["a://*"],"onConnect":[{"tool":"x"}],"mode":"poll","pollInterval":"1s","safetyInterval":"0","protocol":"modern"}]}`), "f", surroundings(t, nil))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	if s := c.Servers[0]; s.Tracked() || c.Tracked() != 0 || len(s.OnConnect)+len(s.Include) != 0 {
		t.Errorf("%+v", s)
	}
	var paths []string
	for _, p := range problems {
		if p.Code != CodeIneffective {
			t.Errorf("%v", p)
		}
		paths = append(paths, strings.TrimPrefix(p.Path, "/servers/0/"))
	}
	if got := strings.Join(paths, " "); got != "trackResources trackTools include onConnect mode pollInterval safetyInterval protocol" {
		t.Errorf("warned of %s", got)
	}
}

func TestCatalogProblems(t *testing.T) {
	for keys, want := range map[string]Code{
		`"type":"catalog","url":"https://h"`:                                "",
		`"type":"catalog","url":"https://user:${V}@h/x","trackTools":false`: "",
		`"type":"catalog"`:                                                                 CodeMissing,
		`"type":"catalog","command":"go"`:                                                  CodeConflict,
		`"type":"catalog","url":"https://h/?key=${V}"`:                                     CodeURL,
		`"type":"catalog","url":"https://h/?"`:                                             CodeURL,
		`"type":"catalog","url":"https://h/#x"`:                                            CodeURL,
		`"type":"catalog","url":"https://h/","catalogInterval":"10ms"`:                     CodeRange,
		`"type":"catalog","url":"https://h/","catalogInterval":30`:                         CodeType,
		`"type":"catalog","url":"https://h/","catalogInterval":"30"`:                       CodeDuration,
		`"type":"catalog","url":"https://h/","args":["x"]`:                                 CodeIneffective,
		`"type":"http","url":"https://h/","catalogInterval":"30s"`:                         CodeIneffective,
		`"command":"go","catalogInterval":"30s"`:                                           CodeIneffective,
		`"type":"catalog","url":"http://h.example/"`:                                       CodeInsecureURL,
		`"type":"catalogue","url":"https://h/"`:                                            CodeValue,
		`"type":"catalog","url":"https://h/","connectTimeout":"1s"`:                        CodeIneffective,
		`"type":"catalog","url":"https://h/","headers":{"Authorization":"Bearer hunter2"}`: CodeSecret,
	} {
		_, problems := Parse([]byte(`{"servers":{"a":{`+keys+`}}}`), "f", surroundings(t, map[string]string{"V": "v"}))
		if want == "" && len(problems) > 0 || want != "" && !(len(problems) == 1 && problems[0].Code == want) {
			t.Errorf("%s: %v, want %q", keys, problems, want)
		}
	}
}
