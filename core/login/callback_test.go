package login_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/login/logintest"
)

// The browser is redirected to the URI that the client was registered with, in the forms of
// different hosts.
func TestRedirect(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		oauth config.OAuth
		port  int
		want  string
	}{
		{config.OAuth{}, 0, "http://127.0.0.1:0/callback"},
		{config.OAuth{}, 8123, "http://127.0.0.1:8123/callback"},
		{config.OAuth{CallbackPort: 8080}, 0, "http://127.0.0.1:8080/callback"},
		{config.OAuth{ClientID: "me"}, 0, "http://127.0.0.1:0/callback"},
		{config.OAuth{ClientID: "me", CallbackPort: 8080}, 0, "http://localhost:8080/callback"},
		{config.OAuth{ClientID: "me", CallbackPort: 8080}, 8123, "http://localhost:8123/callback"},
		{config.OAuth{ClientID: "me", RedirectURI: "http://127.0.0.1:19876/mcp/oauth/callback"}, 0, "http://127.0.0.1:19876/mcp/oauth/callback"},
		{config.OAuth{ClientID: "me", RedirectURI: "http://localhost:8787/callback", CallbackPort: 8080}, 0, "http://localhost:8787/callback"},
		{config.OAuth{ClientID: "me", RedirectURI: "http://[::1]:7777/cb"}, 8123, "http://[::1]:8123/cb"},
		{config.OAuth{ClientID: "me", RedirectURI: "cursor://anysphere.cursor-mcp/oauth/callback"}, 0, "cursor://anysphere.cursor-mcp/oauth/callback"},
		{config.OAuth{ClientID: "me", RedirectURI: "cursor://anysphere.cursor-mcp/oauth/callback"}, 8123, "http://localhost:8123/callback"},
	} {
		if got := (login.Target{OAuth: c.oauth}).Redirect(c.port); got != c.want {
			t.Errorf("%+v, port %d: %s, want %s", c.oauth, c.port, got, c.want)
		}
	}
}

// A redirect URI that does not lead to this machine is refused, whatever it looks like. A port in
// use is an error for either address of localhost.
func TestListenErrors(t *testing.T) {
	t.Parallel()
	for _, redirect := range []string{"https://localhost:1/callback", "http://93.184.215.14:80/callback", "http://0.0.0.0:0/callback", "http://localhost.evil.example/callback",
		"cursor://anysphere.cursor-mcp/oauth/callback", "http://evil@localhost/callback", "callback", ""} {
		c, err := login.Listen(t.Context(), redirect)
		if err == nil {
			c.Close()
		}
		if !errors.Is(err, login.ErrElsewhere) {
			t.Errorf("%s: %v", redirect, err)
		}
	}
	for _, address := range []string{"127.0.0.1:0", "[::1]:0"} {
		var config net.ListenConfig
		other, err := config.Listen(t.Context(), "tcp", address)
		if err != nil {
			t.Logf("%s: %v", address, err)
			continue
		}
		_, port, _ := net.SplitHostPort(other.Addr().String())
		c, err := login.Listen(t.Context(), "http://localhost:"+port+"/callback")
		if err == nil {
			c.Close()
			t.Errorf("%s is taken by somebody else, and so is localhost", address)
		}
		_ = other.Close()
	}
}

// The browser reaches the host and path of the redirect URI, at either address of localhost.
func TestCallbackOfAHost(t *testing.T) {
	t.Parallel()
	for _, redirect := range []string{"http://localhost:0/oauth/callback", "http://127.0.0.1:0", "http://[::1]:0/callback"} {
		s := logintest.New(t)
		logins := store(t)
		c, err := login.Listen(t.Context(), redirect)
		if err != nil {
			if strings.Contains(redirect, "::1") {
				t.Logf("%s: %v", redirect, err)
				continue
			}
			t.Fatal(err)
		}
		f, err := logins.Begin(t.Context(), target(s), challenge(t, s), c.Redirect)
		must(t, err)
		answer := logintest.Browse(t, f.URL)
		if !strings.HasPrefix(answer, c.Redirect+"?") || strings.Contains(answer, ":0/") {
			t.Errorf("%s: the browser comes back to %s", redirect, answer)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ended := make(chan error, 1) // sent to once
		go func() {
			ended <- c.Serve(ctx, f, func(ctx context.Context, q url.Values) error { _, err := f.Finish(ctx, q); return err }, nil)
		}()
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		for _, step := range []struct {
			address string
			status  int
		}{
			{strings.Replace(answer, "?", "/x?", 1), http.StatusNotFound},
			{strings.Replace(strings.Replace(answer, "localhost", "127.0.0.1", 1), "state=", "state=x", 1), 0}, // another name is refused, with either status
			{answer, http.StatusOK},
		} {
			q, err := http.NewRequestWithContext(t.Context(), http.MethodGet, step.address, nil)
			must(t, err)
			p, err := client.Do(q)
			must(t, err)
			_ = p.Body.Close()
			if step.status != 0 && p.StatusCode != step.status || step.status == 0 && p.StatusCode < 400 {
				t.Errorf("%s: %s", step.address, p.Status)
			}
		}
		if err := <-ended; err != nil {
			t.Errorf("%s: %v", redirect, err)
		}
	}
}
