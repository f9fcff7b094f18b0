package web

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The tokens of clients are accepted beside the file's, whose holders see more; from the first client on, a token is needed.
func TestTokensOfClients(t *testing.T) {
	t.Parallel()
	const ci, work, whole = "token-of-the-client-ci", "token-of-the-client-work", "token-of-the-operator"
	file := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(file, []byte("admin "+whole+"\nwork "+work+"-in-the-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tokens, err := FollowTokens(file, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	changes := 0
	tokens.OnChange(func() { changes++ })
	begin := func(text string) (client string, ctx context.Context) {
		t.Helper()
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", "Bearer "+text)
		r, end := tokens.begin(r, tokens.current().find(digest(text)), http.NewResponseController(httptest.NewRecorder()))
		t.Cleanup(end)
		return tokens.Client(r), r.Context()
	}
	_, before := begin(work + "-in-the-file")
	_, operator := begin(whole)
	tokens.SetClients([]Client{{"ci", ci}, {"work", ""}, {"weak", "short"}, {"stolen", whole}})
	for text, want := range map[string]string{ci: "ci", work + "-in-the-file": "work", whole: "stolen"} {
		if got, _ := begin(text); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
	if !errors.Is(context.Cause(before), errTokenRemoved) || !errors.Is(context.Cause(operator), errTokenRemoved) {
		t.Error("requests go on that saw everything")
	}
	if tokens.Holds("weak") || !tokens.Holds("ci") || !tokens.IsClient("weak") || !tokens.HoldsPrincipal("name work") || tokens.HoldsUnrestricted("name work") || changes != 1 {
		t.Errorf("%d changes", changes)
	}
	_, ours := begin(ci)
	tokens.SetClients([]Client{{"ci", ci}})
	tokens.SetClients([]Client{{"ci", ci}})
	if got, _ := begin(whole); got != "" || ours.Err() != nil || changes != 2 {
		t.Errorf("%q, %v, %d changes", got, ours.Err(), changes)
	}
	tokens.SetClients(nil)
	if context.Cause(ours) != errTokenRemoved || tokens.Holds("ci") { //nolint:errorlint // it is never wrapped
		t.Error("the token of a removed client is accepted")
	}
	if shown := fmt.Sprintf("%v %+v %#v", tokens, tokens, tokens); strings.Contains(shown, whole) {
		t.Error("a token is printed")
	}

	open, err := FollowTokens("", nil, nil)
	if err != nil || open.Set() {
		t.Fatal("a token is needed", err)
	}
	open.SetClients([]Client{{"ci", ci}})
	open.SetClients(nil)
	if !open.Set() {
		t.Error("everybody is let in after the last client was removed")
	}
}

// A login with the token of a client is the client's.
func TestLoginOfAClient(t *testing.T) {
	t.Parallel()
	tokens, err := FollowTokens("", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	tokens.SetClients([]Client{{"ci", "token-of-the-client-ci"}})
	s, err := New(Options{Tokens: tokens})
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.AddCookie(&http.Cookie{Name: s.cookieName(r), Value: s.logins.begin(time.Now(), tokens.current()[0])})
	found, refused := s.authorize(r)
	r, end := tokens.begin(r, found, http.NewResponseController(httptest.NewRecorder()))
	defer end()
	if refused != 0 || tokens.Client(r) != "ci" || tokens.Principal(r) != "name ci" {
		t.Errorf("%d, %q, %q", refused, tokens.Client(r), tokens.Principal(r))
	}
}
