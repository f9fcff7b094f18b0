package web_test

import (
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/output/web"
)

func TestListen(t *testing.T) {
	open, _ := web.New(web.Options{})
	guarded, _ := web.New(web.Options{Tokens: token(t)})
	for _, addr := range []string{"0.0.0.0:0", ":0", "[::]:0", "nonsense", "127.0.0.1:notaport", "127.0.0.1:99999", ""} {
		ln, err := open.Listen(t.Context(), addr)
		if err == nil {
			ln.Close()
		}
		if _, ok := errors.AsType[*web.OptionError](err); !ok {
			t.Errorf("%q: %v", addr, err)
		}
	}
	for _, addr := range []string{"127.0.0.1:0", "localhost:0", "127.8.8.8:0"} {
		s, _ := web.New(web.Options{})
		ln, err := s.Listen(t.Context(), addr)
		if err != nil {
			t.Errorf("%q: %v", addr, err)
			continue
		}
		host, _, _ := net.SplitHostPort(addr)
		_, port, _ := net.SplitHostPort(ln.Addr().String())
		if want := "http://" + host + ":" + port; s.URL() != want {
			t.Errorf("%q: URL is %s, want %s", addr, s.URL(), want)
		}
		_, err = open.Listen(t.Context(), ln.Addr().String())
		if _, usage := errors.AsType[*web.OptionError](err); err == nil || usage {
			t.Errorf("occupied: %v", err)
		}
		ln.Close()
	}
	ln, err := guarded.Listen(t.Context(), "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
}

func TestLoadToken(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string, mode os.FileMode) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		return file
	}
	tok, err := web.LoadToken(write("good", secret+"\r\n", 0o600))
	if err != nil || !tok.Is(secret) || tok.Is(secret+"x") || tok.Is("") {
		t.Errorf("good: %v", err)
	}
	if (web.Token{}).Is("") {
		t.Error("no token is a token")
	}
	named, err := web.LoadToken(write("named", "\nchat "+secret+"1\nchat\t"+secret+"2\n"+secret+"\n", 0o600))
	if err != nil || !named.Holds("chat") || !named.Holds(web.DefaultName) || named.Holds("other") {
		t.Errorf("named: %v", err)
	}
	for header, want := range map[string]string{
		"Bearer " + secret + "1": "chat", "bearer " + secret + "2": "chat", "Bearer " + secret: web.DefaultName,
		"Bearer " + secret + "3": "", "Basic " + secret: "", "": "",
	} {
		r := &http.Request{Header: http.Header{"Authorization": {header}}}
		if got := named.Identify(r); got != want || named.Is(strings.TrimPrefix(header, "Bearer ")) && want == "" {
			t.Errorf("%q: %q", header, got)
		}
	}
	if got := named.Identify(&http.Request{Header: http.Header{"Authorization": {"Bearer " + secret, "Bearer " + secret}}}); got != "" {
		t.Errorf("two headers: %q", got)
	}
	principal := func(header string) string {
		return named.Principal(&http.Request{Header: http.Header{"Authorization": {header}}})
	}
	chat, unnamed := principal("Bearer "+secret+"1"), principal("Bearer "+secret)
	if chat == "" || unnamed == "" || chat == unnamed || principal("bearer  "+secret+"2 ") != chat || principal("BEARER "+secret) != unnamed ||
		principal("Bearer "+secret+"3") != "" || strings.Contains(unnamed+chat, secret) {
		t.Errorf("principals %q and %q", chat, unnamed)
	}
	several, err := web.LoadToken(write("several", secret+"1\n"+secret+"2\n", 0o600))
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"1", "2"} {
		r := &http.Request{Header: http.Header{"Authorization": {"Bearer " + secret + text}}}
		if got := several.Principal(r); got == "" || got == several.Principal(&http.Request{Header: http.Header{"Authorization": {"Bearer " + secret + string('3'-text[0]+'0')}}}) {
			t.Errorf("secrets without names are one principal: %q", got)
		}
	}
	for _, file := range []string{
		write("name", "a/b "+secret, 0o600), write("words", "a b "+secret, 0o600), write("weak", secret+"\nchat abc", 0o600),
		write("group", secret, 0o640), write("world", secret, 0o604), write("short", "abc", 0o600), write("empty", "", 0o600),
		write("spaces", secret+" "+secret, 0o600), write("binary", strings.Repeat("\x00", 32), 0o600),
		write("huge", strings.Repeat("x", 1<<20), 0o600), dir, filepath.Join(dir, "missing"),
	} {
		_, err := web.LoadToken(file)
		if _, ok := errors.AsType[*web.OptionError](err); !ok {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows the token", filepath.Base(file))
		}
	}
}
