package config

import (
	"encoding/json"
	"strings"
	"testing"

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
