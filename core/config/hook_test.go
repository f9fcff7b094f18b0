package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

const hookSecret = "0123456789abcdef"

func parseHooks(t *testing.T, hooks string) (*Config, Problems) {
	t.Helper()
	return Parse([]byte(`{"servers":[{"id":"docs","command":"go"}],"hooks":`+hooks+`}`), "f",
		surroundings(t, map[string]string{"S": hookSecret, "OLD": "fedcba9876543210", "W": webhookSecret, "SHORT": "short"}))
}

func TestHooks(t *testing.T) {
	t.Parallel()
	c, problems := parseHooks(t, `[
		{"id":"repo","verify":"github","secret":"${S}","touches":[{"server":"docs","uri":"file:///repo/**"}]},
		{"id":"mail","verify":"hmac","secret":["${S}","${OLD}"],"header":"x-mail-hash"},
		{"id":"any","verify":"hmac","secret":"${S}"},
		{"id":"std","verify":"standard-webhooks","secret":"${W}"}]`)
	if len(problems) > 0 || len(c.Hooks) != 4 {
		t.Fatalf("%v\n%+v", problems, c)
	}
	a, b := c.Hooks[0], c.Hooks[1]
	if a.ID != "repo" || a.Verify != HookGitHub || len(a.Secrets) != 1 || a.Secrets[0].Reveal() != hookSecret || !slices.Equal(a.Touches, []Touch{{"docs", "file:///repo/**"}}) || a.Header != "" {
		t.Errorf("%+v", a)
	}
	if len(b.Secrets) != 2 || b.Secrets[1].Reveal() != "fedcba9876543210" || b.Header != "X-Mail-Hash" || c.Hooks[2].Header != DefaultHookHeader {
		t.Errorf("%+v", b)
	}
	if !a.Equal(a) || a.Equal(b) || a.Intent == nil || a.Intent.Digest == b.Intent.Digest {
		t.Error("hooks are compared wrongly")
	}
	if shown := fmt.Sprintf("%v %+v %#v", c.Hooks, c.Hooks, c.Hooks); strings.Contains(shown, hookSecret) || strings.Contains(shown, "whsec_") {
		t.Error("a secret is printed")
	}
}

// Every problem says what is wrong, where, and what to write instead, without a secret.
func TestWrongHooks(t *testing.T) {
	t.Parallel()
	const rest = `"verify":"github","secret":"${S}"`
	const random = "create one with: openssl rand -hex 32, and give it to the sender"
	for hook, want := range map[string]string{
		`"repo"`:                     `error /hooks/0 Hook at index 0 must be an object | `,
		`{` + rest + `}`:             `error /hooks/0 Hook at index 0 must include a non-empty string "id" | `,
		`{"id":"a/b",` + rest + `}`:  `error /hooks/0/id Hook at index 0 has invalid "id"; expected up to 64 letters, digits, ".", "_" and "-" | it is the last part of the URL: /hooks/ID`,
		`{"id":"a","secret":"${S}"}`: `error /hooks/0 Hook "a" must include a non-empty string "verify" | it says who signs the messages, such as github`,
		`{"id":"a","verify":"gitlab","secret":"${S}"}`:                           `error /hooks/0/verify Hook "a" has invalid "verify"; expected one of "github", "hmac", "slack", "standard-webhooks", "stripe" | `,
		`{"id":"a","verify":"github"}`:                                           `error /hooks/0 Hook "a" must include a non-empty string "secret" | ` + random,
		`{"id":"a","verify":"slack"}`:                                            `error /hooks/0 Hook "a" must include a non-empty string "secret" | it is the signing secret of the app, on its page Basic Information`,
		`{"id":"a","verify":"github","secret":"short"}`:                          `warning /hooks/0/secret Hook "a" has a secret in plain text in "secret" | store it in an environment variable and write ${NAME}` + "\n" + `error /hooks/0/secret Hook "a" has invalid "secret"; expected at least 16 bytes | ` + random,
		`{"id":"a","verify":"github","secret":"${SHORT}"}`:                       `warning /hooks/0/secret Hook "a": invalid "secret"; expected at least 16 bytes | ` + random,
		`{"id":"a","verify":"github","secret":"${UNSET}"}`:                       `warning /hooks/0/secret Hook "a": "secret" uses variable UNSET, which is not set | set UNSET, or specify a default: ${UNSET:-…}`,
		`{"id":"a","verify":"github","secret":["${S}","${UNSET}"]}`:              `warning /hooks/0/secret/1 Hook "a": "secret[1]" uses variable UNSET, which is not set | set UNSET, or specify a default: ${UNSET:-…}`,
		`{"id":"a","verify":"github","secret":[]}`:                               `error /hooks/0/secret Hook "a" has invalid "secret"; expected string, or array of 1 to 3 strings | `,
		`{"id":"a","verify":"github","secret":[1]}`:                              `error /hooks/0/secret/0 Hook "a" has invalid "secret" at index 0; expected string | `,
		`{"id":"a","verify":"standard-webhooks","secret":"${S}"}`:                `warning /hooks/0/secret Hook "a": invalid "secret"; expected whsec_ followed by 24 to 64 bytes in standard base64 | create one with: echo whsec_$(openssl rand -base64 32), unless the sender has one`,
		`{"id":"a","header":"X-Hash",` + rest + `}`:                              `warning /hooks/0/header Hook "a" has "header", which only "verify": "hmac" uses | `,
		`{"id":"a","verify":"hmac","header":"a b","secret":"${S}"}`:              `error /hooks/0/header Hook "a" has invalid "header"; expected the name of a header | `,
		`{"id":"a","touches":{},` + rest + `}`:                                   `error /hooks/0/touches Hook "a" has invalid "touches"; expected array of objects | write [{"server": "docs", "uri": "file:///docs/**"}]`,
		`{"id":"a","touches":["docs"],` + rest + `}`:                             `error /hooks/0/touches/0 Hook "a" "touches" at index 0 must be an object | write [{"server": "docs", "uri": "file:///docs/**"}]`,
		`{"id":"a","touches":[{"server":"dosc","uri":"**"}],` + rest + `}`:       `error /hooks/0/touches/0/server Hook "a" "touches" at index 0 names unknown server "dosc" | did you mean "docs"?`,
		`{"id":"a","touches":[{"server":"x","uri":"**"}],` + rest + `}`:          `error /hooks/0/touches/0/server Hook "a" "touches" at index 0 names unknown server "x" | it is the id of a server in this config`,
		`{"id":"a","touches":[{"server":"docs"}],` + rest + `}`:                  `error /hooks/0/touches/0 Hook "a" "touches" at index 0 must include a non-empty string "uri" | `,
		`{"id":"a","touches":[{"server":"docs","uri":"["}],` + rest + `}`:        `error /hooks/0/touches/0/uri Hook "a" has invalid "touches[0].uri"; expected a glob for resource URIs | "**" selects every resource of the server`,
		`{"id":"a","touches":[{"server":"docs","uri":"**","x":1}],` + rest + `}`: `warning /hooks/0/touches/0/x Hook "a" "touches" at index 0 has unknown key "x" | `,
		`{"id":"a","verfy":"x",` + rest + `}`:                                    `warning /hooks/0/verfy Hook "a" has unknown key "verfy" | did you mean "verify"?`,
		`{"id":"a",` + rest + `},{"id":"a",` + rest + `}`:                        `error /hooks/1/id Duplicate hook id "a" | `,
	} {
		c, problems := parseHooks(t, "["+hook+"]")
		var got []string
		for _, p := range problems {
			got = append(got, fmt.Sprintf("%s %s %s | %s", p.Severity, p.Path, p.Message, p.Hint))
		}
		if text := strings.Join(got, "\n"); text != want {
			t.Errorf("%s:\n got %s\nwant %s", hook, text, want)
		}
		if (strings.Contains(hook, "UNSET") || strings.Contains(hook, "SHORT")) && len(c.Hooks[0].Missing) != 1 {
			t.Errorf("%+v", c.Hooks)
		}
	}
	if _, problems := parseHooks(t, `{"id":"a"}`); len(problems) != 1 || problems[0].Code != CodeType {
		t.Errorf("%v", problems)
	}
	if _, problems := parseHooks(t, `[`+strings.Repeat(`{},`, maxHooks)+`{}]`); len(problems) != 1 || problems[0].Code != CodeRange {
		t.Errorf("%v", problems)
	}
}

// In the settings of a host, hooks are programs that the host runs.
func TestHooksOfHosts(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"/home/u/.claude.json", "/home/u/.claude/settings.json", "/home/u/.gemini/settings.json", "/home/u/x/plugin.json", "/home/u/.mcp.json"} {
		c, problems := Parse([]byte(`{"mcpServers":{"docs":{"command":"go"}},"hooks":{"PreToolUse":[]}}`), file, surroundings(t, nil))
		if c == nil || len(c.Hooks) > 0 || problems.Errors() > 0 {
			t.Errorf("%s: %v", file, problems)
		}
	}
}
