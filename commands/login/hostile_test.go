package login_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/commands"
	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/login/logintest"
	"github.com/mcptrack/mcptrack/core/printable"
)

// hidden has a direction override, a tag character, a C1 control and a line separator.
const hidden = "\u202e\U000e0041\u009b31m\u2028\x1b[2J"

// mustBePrintable checks that nothing in the output hides or forges anything.
func mustBePrintable(t *testing.T, what, text string) {
	t.Helper()
	if printable.Lines(text) != text {
		t.Errorf("%s: %q", what, text)
	}
}

// stdout has one line, the URL, which is printable.
func TestLoginPrintsAPrintableURL(t *testing.T) {
	b := newLoginBench(t, `, "oauth": {"scopes": ["a`+"\u202e"+`b"], "clientId": "me`+"\u202e"+`"}`)
	out, errs := b.run(cli.ExitUsage, "login", "docs", "--no-browser", "--timeout", "1m") // nothing is pasted
	if strings.Count(out, "\n") != 1 || !strings.Contains(out, "client_id=me%E2%80%AE") || strings.ContainsFunc(out, func(r rune) bool { return r > '~' }) {
		t.Errorf("%q", out)
	}
	mustBePrintable(t, "stderr", errs)
	for _, endpoint := range []string{"/authorize" + hidden, "/authorize?x=" + hidden} {
		endpoint = strings.ReplaceAll(endpoint, "\x1b", "")
		b.as.Meta = func(m map[string]any) { m["authorization_endpoint"] = b.as.URL + endpoint }
		for _, args := range [][]string{{"--no-browser"}, nil} {
			out, errs := b.run(cli.ExitRefused, append([]string{"login", "docs", "--timeout", "1m"}, args...)...)
			if out != "" || !strings.Contains(errs, "must be encoded") {
				t.Errorf("%q\n%q", out, errs)
			}
			mustBePrintable(t, "stderr", errs)
		}
	}
}

// All text from an authorization server is printable where it is shown: on a terminal, in documents and
// on the page in the browser.
func TestHostileTextOfALogin(t *testing.T) {
	refusal := func(w http.ResponseWriter, status int) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": "no" + hidden, "error_description": "way" + hidden})
	}
	logIn := func(b *loginBench, exit int, page func(status int, body string)) {
		b.Helper()
		var out, errs bytes.Buffer
		env := b.env(strings.NewReader(""), &out, &errs)
		env.ErrTTY = true
		shown := make(chan struct{}) // closed when the browser has shown its page, or if it shows none
		open := env.OpenBrowser
		if page != nil {
			open = func(address string) error {
				mustBePrintable(b.T, "URL", address)
				go func() {
					defer close(shown)
					p, err := http.Get(address)
					if err != nil {
						b.Error(err)
						return
					}
					body, _ := io.ReadAll(p.Body)
					_ = p.Body.Close()
					page(p.StatusCode, string(body))
				}()
				return nil
			}
		} else {
			close(shown)
		}
		env.OpenBrowser = open
		if got := commands.Main(b.Context(), env, []string{"--config", b.config, "login", "docs", "--json", "--timeout", "1m"}); got != exit {
			b.Errorf("exit %d: %s", got, &errs)
		}
		<-shown
		mustBePrintable(b.T, "stdout", out.String())
		mustBePrintable(b.T, "stderr", strings.NewReplacer("\r", "", "\x1b[K", "", "\x1b[36m", "", "\x1b[0m", "").Replace(errs.String())) // of progress
	}
	for name, c := range map[string]struct {
		plant func(*logintest.Issuer)
		want  string // on the page; "": there is none
	}{
		"challenge": {func(s *logintest.Issuer) {
			s.Challenge = func() string {
				return `Bearer error="no` + hidden[:3] + `", error_description="way` + hidden[:3] + `", scope="a ` + hidden[:3] + `"`
			}
		}, "Logged in"},
		"registration refused": {func(s *logintest.Issuer) {
			web := logintest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { refusal(w, http.StatusBadRequest) }))
			s.Meta = func(m map[string]any) { m["registration_endpoint"] = web }
		}, ""},
		"registration failed": {func(s *logintest.Issuer) {
			web := logintest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, hidden, http.StatusInternalServerError) }))
			s.Meta = func(m map[string]any) { m["registration_endpoint"] = web }
		}, ""},
		"client": {func(s *logintest.Issuer) {
			s.Clients["me"+hidden] = ""
			web := logintest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusCreated)
				_ = json.NewEncoder(w).Encode(map[string]any{"client_id": "me" + hidden})
			}))
			s.Meta = func(m map[string]any) { m["registration_endpoint"] = web }
		}, "Logged in"},
		"client that must authenticate": {func(s *logintest.Issuer) {
			web := logintest.Serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusCreated)
				_ = json.NewEncoder(w).Encode(map[string]any{"client_id": "me", "client_secret": "s", "token_endpoint_auth_method": hidden})
			}))
			s.Meta = func(m map[string]any) { m["registration_endpoint"] = web }
		}, ""},
		"refusal in the browser": {func(s *logintest.Issuer) {
			s.Answer = func(q url.Values) {
				q.Del("code")
				q.Set("error", "no"+hidden)
				q.Set("error_description", "way<b>"+hidden)
			}
		}, `no\u202e\U000e0041\u009b31m\u2028\x1b[2J (way&lt;b&gt;\u202e`},
		"issuer in the browser": {func(s *logintest.Issuer) {
			s.Answer = func(q url.Values) { q.Set("iss", "https://x"+hidden) }
		}, `https://x\u202e`},
		"token refused": {func(s *logintest.Issuer) {
			s.AnswerToken(func(w http.ResponseWriter, _ *http.Request) bool { refusal(w, http.StatusBadRequest); return true })
		}, `no\u202e`},
		"token of another type": {func(s *logintest.Issuer) {
			s.AnswerToken(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(map[string]any{"access_token": "x", "token_type": hidden})
				return true
			})
		}, `of type \u202e`},
		"metadata": {func(s *logintest.Issuer) {
			s.Meta = func(m map[string]any) { m["issuer"] = "https://x" + hidden }
		}, ""},
		"authorization server": {func(s *logintest.Issuer) {
			s.PRM = func(m map[string]any) { m["authorization_servers"] = []string{"https://x" + hidden} }
		}, ""},
		"resource": {func(s *logintest.Issuer) {
			s.PRM = func(m map[string]any) { m["resource"] = s.Resource + hidden }
		}, ""},
		"scopes": {func(s *logintest.Issuer) {
			s.PRM = func(m map[string]any) { m["scopes_supported"] = []string{"a", hidden} }
		}, "Logged in"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newLoginBench(t, "")
			c.plant(b.as)
			exit := cli.ExitRefused
			if c.want == "Logged in" {
				exit = cli.ExitOK
			}
			var page func(int, string)
			if c.want != "" {
				page = func(status int, body string) {
					mustBePrintable(t, "page", body)
					if !strings.Contains(body, c.want) {
						t.Errorf("the browser shows %d %s", status, body)
					}
				}
			}
			logIn(b, exit, page)
			for _, args := range [][]string{{"auth"}, {"auth", "--json"}, {"auth", "-o", "yaml"}, {"auth", "-o", "name"}} {
				out, errs := b.run(cli.ExitOK, args...)
				mustBePrintable(t, "auth", out+errs)
			}
			b.as.Revoke()
			b.as.AnswerToken(func(w http.ResponseWriter, _ *http.Request) bool { refusal(w, http.StatusBadRequest); return true })
			for _, args := range [][]string{{"list"}, {"list", "--json"}, {"auth"}, {"auth", "--json"}} {
				var out, errs bytes.Buffer
				_ = commands.Main(t.Context(), b.env(strings.NewReader(""), &out, &errs), append([]string{"--config", b.config, "--log-level", "debug"}, args...))
				mustBePrintable(t, strings.Join(args, " "), out.String()+errs.String())
			}
		})
	}
}
