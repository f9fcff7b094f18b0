package session

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
)

// In any order of the secrets, nothing remains of the longer one.
func TestRedactorOfSecretsThatBeginAlike(t *testing.T) {
	srv := config.Server{Program: config.Program{Env: map[string]config.Secret{
		"ORG": config.NewSecret("acme-corp"), "TOKEN": config.NewSecret("acme-corp-9f8e7d6c"), "KEY": config.NewSecret("acme-corp-9f8e")}}}
	for range 20 { // map order
		got := newRedactor(secretsOf(srv)).text("token acme-corp-9f8e7d6c of acme-corp is expired")
		if got != "token [redacted] of [redacted] is expired" {
			t.Fatal(got)
		}
	}
}

// User info of a URL is sent as a header, which a response may repeat.
func TestRedactorOfUserInfo(t *testing.T) {
	r := newRedactor(secretsOf(config.Server{URL: config.NewSecret("https://admin:hunter2hunter2@example.org/mcp")}))
	for _, in := range []string{"Authorization: Basic YWRtaW46aHVudGVyMmh1bnRlcjI= refused", "Authorization: Basic YWRtaW46aHVudGVyMmh1bnRlcjI refused"} {
		if got := r.text(in); got != "Authorization: Basic [redacted] refused" {
			t.Error(got)
		}
	}
}
