package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const clientTokenText = "token-of-the-client-in-tests"

func parseClients(t *testing.T, clients string) (*Config, Problems) {
	t.Helper()
	return Parse([]byte(`{"servers":[{"id":"docs","command":"go"},{"id":"team-a","command":"go"}],"clients":`+clients+`}`), "f",
		surroundings(t, map[string]string{"T": clientTokenText, "SHORT": "short-token"}))
}

func TestClients(t *testing.T) {
	t.Parallel()
	c, problems := parseClients(t, `{"ci":{"token":"${T}","servers":["team-*"],"allow":["read_*"],"deny":["*delete*","file:///etc/**"]},
		"Work":{"folder":"/work/**","deny":["*"]},"claude-code":{}}`)
	if len(problems) > 0 || len(c.Clients) != 3 {
		t.Fatalf("%v\n%+v", problems, c)
	}
	ci := c.Clients[0]
	if ci.Name != "ci" || ci.Token.Reveal() != clientTokenText || ci.Sees("docs") || !ci.Sees("team-a") || !c.Clients[1].Sees("docs") ||
		!slices.Equal(ci.Allow, []string{"read_*"}) || len(ci.Deny) != 2 || ci.Intent == nil || !ci.Equal(ci) || ci.Equal(c.Clients[1]) {
		t.Errorf("%+v", ci)
	}
	if shown := fmt.Sprintf("%v %+v %#v", c.Clients, c.Clients, c.Clients); strings.Contains(shown, clientTokenText) {
		t.Error("a token is printed")
	}
	for _, s := range []struct{ name, folder, want string }{
		{"ci", "/home", "ci"}, {"CI", "/work/a", "ci"}, {"Claude Code", "/work/a", "Work"}, {"Claude Code", "/home", "claude-code"}, {"work", "/home", ""}, {"", "", ""},
	} {
		got := ""
		if found := c.ClientFor(s.name, s.folder); found != nil {
			got = found.Name
		}
		if got != s.want {
			t.Errorf("%s in %s: %q, want %q", s.name, s.folder, got, s.want)
		}
	}
}

// What is wrong with a client is an error, unless it is only missing on this machine. No message has the token.
func TestWrongClients(t *testing.T) {
	t.Parallel()
	for text, code := range map[string]Code{
		`{"a b":{}}`: CodeID, `{"":{}}`: CodeID, `{"..":{}}`: CodeID, `{"` + strings.Repeat("a", 33) + `":{}}`: CodeID,
		`[]`: CodeType, `{"ci":"x"}`: CodeType, `{"ci":{"token":5}}`: CodeType, `{"ci":{"token":"short-token"}}`: CodeValue, `{"ci":{"token":"has a space in the middle"}}`: CodeValue,
		`{"ci":{"allow":["{"]}}`: CodeGlob, `{"ci":{"deny":"x"}}`: CodeType, `{"ci":{"folder":"{"}}`: CodeGlob, `{"ci":{"folder":"~/work/**"}}`: CodeGlob, `{"ci":{"folder":"work"}}`: CodeGlob,
		`{"ci":{"token":"${T}"},"other":{"token":"` + clientTokenText + `"}}`: CodeDuplicateID,
	} {
		cfg, problems := parseClients(t, text)
		if cfg != nil || !problems.Has(code) || strings.Contains(problems.Error(), clientTokenText) || strings.Contains(problems.Error(), "short-token") {
			t.Errorf("%s: %v", text, problems)
		}
	}
	for text, code := range map[string]Code{`{"ci":{"token":"${UNSET}"}}`: CodeUnset, `{"ci":{"token":"${SHORT}"}}`: CodeValue,
		`{"ci":{"servers":["doc"]}}`: CodeReference, `{"ci":{"denies":[]}}`: CodeUnknownKey, `{"ci":{"token":"` + clientTokenText + `"}}`: CodeSecret} {
		cfg, problems := parseClients(t, text)
		if cfg == nil || len(problems) != 1 || problems[0].Code != code {
			t.Errorf("%s: %v", text, problems)
			continue
		}
		if missing := len(cfg.Clients[0].Missing) > 0; missing != strings.Contains(text, "${") || missing && cfg.Clients[0].Token.Reveal() != "" {
			t.Errorf("%s: %+v", text, cfg.Clients[0])
		}
	}
}

func TestTools(t *testing.T) {
	t.Parallel()
	read := func(tools string) (*Config, Problems) {
		return Parse([]byte(`{"servers":[{"id":"docs","command":"go","tools":`+tools+`}]}`), "f", surroundings(t, nil))
	}
	c, problems := read(`{"create_issue":{"name":"new_issue"},"b":{"description":"Does b."},"c":{"name":"b"}}`)
	if len(problems) > 0 || len(c.Servers[0].Tools) != 3 || c.Servers[0].Tools["create_issue"] != (Tool{Name: "new_issue"}) || c.Servers[0].Tools["b"].Description != "Does b." {
		t.Fatalf("%+v: %v", c, problems)
	}
	for text, code := range map[string]Code{`["*"]`: CodeType, `{"a":"b"}`: CodeType, `{"a":{}}`: CodeMissing, `{"a":{"name":""}}`: CodeValue, `{"a":{"name":"b c"}}`: CodeValue,
		`{"a":{"name":"` + strings.Repeat("a", 65) + `"}}`: CodeValue, `{"a":{"name":"x"},"b":{"name":"x"}}`: CodeDuplicateID} {
		if c, problems := read(text); c != nil || !problems.Has(code) {
			t.Errorf("%s: %v", text, problems)
		}
	}
}

func TestMaxResult(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int64{`"64KiB"`: 64 << 10, `"1024"`: 1024, `"2MiB"`: 2 << 20, `"1023"`: 0, `"0"`: 0, `"+2048"`: 0, `"64 KiB"`: 0, `"64kb"`: 0, `65536`: 0, `"99999999TiB"`: 0} {
		c, problems := Parse([]byte(`{"servers":[{"id":"docs","command":"go","maxResult":`+text+`}]}`), "f", surroundings(t, nil))
		if (c == nil) != (want == 0) || c != nil && c.Servers[0].MaxResult != want {
			t.Errorf("%s: %v", text, problems)
		}
	}
}
