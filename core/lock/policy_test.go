package lock

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

func TestParsePolicy(t *testing.T) {
	t.Parallel()
	got, err := ParsePolicy(map[string]string{"wording": "allow", "L005": "block"})
	if want := (Policy{"L002": Allow, "L005": Block}); err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	for want, settings := range map[string]map[string]string{
		`no class of changes "words"; the classes are removed, wording, `:                  {"words": "allow"},
		`wording: there is no action "Hold"; the actions are allow, audit, hold and block`: {"wording": "Hold"},
		`wording is set twice`: {"wording": "hold", "L002": "hold"},
		`"\x1b"`:               {"\x1b": "allow"},
	} {
		if p, err := ParsePolicy(settings); err == nil || !strings.Contains(err.Error(), want) || p != nil {
			t.Errorf("%v: %v, %v", settings, p, err)
		}
	}
}

func TestPolicyJSON(t *testing.T) {
	t.Parallel()
	p := Policy{"L005": Audit, "L002": Allow}
	data, err := jsonv2.Marshal(p)
	if err != nil || string(data) != `{"wording":"allow","added":"audit"}` {
		t.Fatalf("%s, %v", data, err)
	}
	var got Policy
	if err := jsonv2.Unmarshal(data, &got); err != nil || !maps.Equal(got, p) {
		t.Errorf("%v, %v", got, err)
	}
	if data, err := json.Marshal(p); err != nil || string(data) != `{"wording":"allow","added":"audit"}` {
		t.Errorf("encoding/json: %s, %v", data, err)
	}
	var other Policy
	if err := json.Unmarshal(data, &other); err != nil || !maps.Equal(other, p) {
		t.Errorf("encoding/json: %v, %v", other, err)
	}
}

func TestPolicyAction(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		policy Policy
		drift  Drift
		want   Action
	}{
		{nil, Drift{Classes: []string{"L002"}}, Hold},
		{nil, Drift{Classes: []string{"L001"}}, Audit},
		{nil, Drift{Classes: []string{"L001", "L011", "L002"}}, Block},
		{Policy{"L002": Allow}, Drift{Classes: []string{"L002"}}, Allow},
		{Policy{"L002": Allow}, Drift{Classes: []string{"L002", "L008"}}, Hold},
		{Policy{"L002": Block}, Drift{Classes: []string{"L002", "L008"}}, Block},
		{Policy{"L002": Allow}, Drift{Classes: []string{"L002"}, Rejected: true}, Hold},
		{Policy{"L015": Allow}, Drift{Classes: []string{"L015"}, New: Item{Problem: "x"}}, Hold},
		{Policy{"L001": Allow}, Drift{Classes: []string{"L001"}}, Allow},
	} {
		if got := test.policy.Action(test.drift); got != test.want {
			t.Errorf("%v %+v: %s, want %s", test.policy, test.drift, got, test.want)
		}
	}
}

func TestPolicyWeaker(t *testing.T) {
	t.Parallel()
	got := Policy{"L001": Block, "L002": Audit, "L005": Hold, "L011": Hold, "L013": Allow}.Weaker()
	if diff := cmp.Diff(Policy{"L002": Audit, "L011": Hold, "L013": Allow}, got); diff != "" {
		t.Error(diff)
	}
	if got := (Policy{"L001": Block}).Weaker(); got != nil {
		t.Error(got)
	}
}

func TestPolicyWithin(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ config, lock, want Policy }{
		{nil, nil, nil},
		{nil, Policy{"L002": Allow}, nil},
		{Policy{"L002": Allow}, nil, Policy{}},
		{Policy{"L002": Allow}, Policy{"L002": Audit}, Policy{"L002": Audit}},
		{Policy{"L002": Audit}, Policy{"L002": Allow}, Policy{"L002": Audit}},
		{Policy{"L002": Block, "L011": Allow}, Policy{"L011": Allow}, Policy{"L002": Block, "L011": Allow}},
		{Policy{"L001": Hold, "L011": Hold}, Policy{"L002": Allow}, Policy{"L001": Hold}},
	} {
		config := maps.Clone(test.config)
		if got := config.Within(test.lock); !maps.Equal(got, test.want) || !maps.Equal(config, test.config) {
			t.Errorf("%v within %v: %v, want %v", test.config, test.lock, got, test.want)
		}
	}
}
