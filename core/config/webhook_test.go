package config

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

const webhookSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func parseWebhooks(t *testing.T, hooks string, env map[string]string) (*Config, Problems) {
	t.Helper()
	return Parse([]byte(`{"servers":[],"webhooks":`+hooks+`}`), "f", surroundings(t, env))
}

func TestWebhooks(t *testing.T) {
	c, problems := parseWebhooks(t, `[
		{"url":"https://a.example/h","secret":"${S}","types":["resource.updated"],"servers":["team-*"],"uris":["file:///**"],"settle":"5m"},
		{"url":"${U}","format":"slack","settle":"0"},
		{"url":"http://127.0.0.1:9/x","format":"cloudevents","allowPrivate":true}]`, map[string]string{"S": webhookSecret, "U": "https://hooks.slack.com/services/T/B/x"})
	if len(problems) > 0 || len(c.Webhooks) != 3 {
		t.Fatalf("%v\n%+v", problems, c)
	}
	a, b, d := c.Webhooks[0], c.Webhooks[1], c.Webhooks[2]
	if a.URL.Reveal() != "https://a.example/h" || a.Secret.Reveal() != webhookSecret || !slices.Equal(a.Types, []string{"resource.updated"}) ||
		!slices.Equal(a.Servers, []string{"team-*"}) || !slices.Equal(a.URIs, []string{"file:///**"}) || a.Settle != 5*time.Minute || a.Format != WebhookStandard {
		t.Errorf("%+v", a)
	}
	if b.Format != WebhookSlack || b.Settle != 0 || !strings.HasSuffix(b.URL.Reveal(), "/T/B/x") {
		t.Errorf("%+v", b)
	}
	if d.Format != WebhookCloudEvents || !d.AllowPrivate || d.Settle != DefaultSettle || !d.Equal(d) || d.Equal(b) {
		t.Errorf("%+v", d)
	}
	if shown := fmt.Sprintf("%v %+v %#v", c.Webhooks, c.Webhooks, c.Webhooks); strings.Contains(shown, "whsec_") || strings.Contains(shown, "example") {
		t.Error("a secret or URL is printed")
	}
}

// Every problem says what is wrong, where, and what to write instead, without a secret or a URL.
func TestWrongWebhooks(t *testing.T) {
	const secret = `,"secret":"${S}"`
	for hook, want := range map[string]string{
		`"https://h/x"`:                                                             `error /webhooks/0 Webhook at index 0 must be an object | `,
		`{` + secret[1:] + `}`:                                                      `error /webhooks/0 Webhook at index 0 must include a non-empty string "url" | `,
		`{"url":"https://h/x"}`:                                                     `error /webhooks/0 Webhook at index 0 must include a non-empty string "secret" | create one with: echo whsec_$(openssl rand -base64 32)`,
		`{"url":"https://h/x","secret":"hunter2"}`:                                  `warning /webhooks/0/secret Webhook at index 0 has a secret in plain text in "secret" | store it in an environment variable and write ${NAME}` + "\n" + `error /webhooks/0/secret Webhook at index 0 has invalid "secret"; expected whsec_ followed by 24 to 64 bytes in standard base64 | create one with: echo whsec_$(openssl rand -base64 32)`,
		`{"url":"http://h/x"` + secret + `}`:                                        `error /webhooks/0/url Webhook at index 0 has invalid "url"; its scheme must be https | "allowPrivate": true allows http and private addresses`,
		`{"url":"https://h/x","format":"slak"` + secret + `}`:                       `error /webhooks/0/format Webhook at index 0 has invalid "format"; expected one of "cloudevents", "slack", "standard" | did you mean "slack"?`,
		`{"url":"https://h/x","types":["resource.update"]` + secret + `}`:           `error /webhooks/0/types/0 Webhook at index 0 has invalid "types"; expected one of "list.changed", "lock.drift", "prompts.list_changed", "resource.updated", "resources.list_changed", "server.state", "skills.list_changed", "templates.list_changed", "tools.list_changed" | did you mean "resource.updated"?`,
		`{"url":"https://h/x","server":["a"]` + secret + `}`:                        `warning /webhooks/0/server Webhook at index 0 has unknown key "server" | did you mean "servers"?`,
		`{"url":"https://h/x","settle":60` + secret + `}`:                           `error /webhooks/0/settle Webhook at index 0 has invalid "settle"; expected duration | write the unit: "30s", "500ms" or "2m"`,
		`{"url":"https://h/x","servers":["["]` + secret + `}`:                       `error /webhooks/0/servers Webhook at index 0 has invalid "servers"; expected globs for server ids | * matches any text: "team-*"`,
		`{"url":"https://10.0.0.1/x"` + secret + `}`:                                `warning /webhooks/0/url Webhook at index 0 has a private address, to which mcptrack does not send events | set "allowPrivate": true to allow private addresses`,
		`{"url":"https://100.64.0.1/x"` + secret + `}`:                              `warning /webhooks/0/url Webhook at index 0 has a private address, to which mcptrack does not send events | set "allowPrivate": true to allow private addresses`,
		`{"url":"https://198.18.0.1/x"` + secret + `}`:                              `warning /webhooks/0/url Webhook at index 0 has a private address, to which mcptrack does not send events | set "allowPrivate": true to allow private addresses`,
		`{"url":"https://[64:ff9b::a00:1]/x"` + secret + `}`:                        `warning /webhooks/0/url Webhook at index 0 has a private address, to which mcptrack does not send events | set "allowPrivate": true to allow private addresses`,
		`{"url":"https://[2002:a00:1::]/x"` + secret + `}`:                          `warning /webhooks/0/url Webhook at index 0 has a private address, to which mcptrack does not send events | set "allowPrivate": true to allow private addresses`,
		`{"url":"https://hooks.localhost/x"` + secret + `}`:                         `warning /webhooks/0/url Webhook at index 0 has a private address, to which mcptrack does not send events | set "allowPrivate": true to allow private addresses`,
		`{"url":"http://h.example/x","allowPrivate":true` + secret + `}`:            `warning /webhooks/0/url Webhook at index 0 uses an unencrypted connection | use https; http is safe only for webhooks on this machine`,
		`{"url":"https://hooks.slack.com/${S}"` + secret + `}`:                      `warning /webhooks/0/url Webhook at index 0 is a Slack webhook, which requires another format | set "format": "slack"`,
		`{"url":"https://h/x","secret":"${UNSET}"}`:                                 `warning /webhooks/0/secret Webhook at index 0: "secret" uses variable UNSET, which is not set | set UNSET, or specify a default: ${UNSET:-…}`,
		`{"url":"https://h/x","uris":["a"],"types":["list.changed"]` + secret + `}`: `warning /webhooks/0/uris Webhook at index 0 has "uris", so only events of type "resource.updated" are sent | `,
	} {
		c, problems := parseWebhooks(t, "["+hook+"]", map[string]string{"S": webhookSecret})
		var got []string
		for _, p := range problems {
			got = append(got, fmt.Sprintf("%s %s %s | %s", p.Severity, p.Path, p.Message, p.Hint))
		}
		if text := strings.Join(got, "\n"); text != want {
			t.Errorf("%s:\n got %s\nwant %s", hook, text, want)
		}
		if strings.Contains(hook, "UNSET") && len(c.Webhooks[0].Missing) != 1 {
			t.Errorf("%+v", c.Webhooks)
		}
	}
	if _, problems := parseWebhooks(t, `{"url":"https://h/x"}`, nil); len(problems) != 1 || problems[0].Code != CodeType {
		t.Errorf("%v", problems)
	}
	if _, problems := Parse([]byte(`{"servers":[],"webhook":[]}`), "f", surroundings(t, nil)); len(problems) != 1 || problems[0].Hint != `did you mean "webhooks"?` {
		t.Errorf("%v", problems)
	}
}
