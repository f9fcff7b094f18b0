package web_test

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/output/web"
)

const tokenA, tokenB, tokenC = "token-a-0123456789-abcdefgh", "token-b-0123456789-abcdefgh", "token-c-0123456789-abcdefgh"

// followed is a server that follows a token file.
type followed struct {
	*testing.T
	file   string
	logs   *syncBuffer
	tokens *web.Tokens
	base   string
	kick   chan struct{}
}

func follow(t *testing.T, text string) *followed {
	t.Helper()
	f := &followed{T: t, file: filepath.Join(t.TempDir(), "token"), logs: &syncBuffer{}, kick: make(chan struct{}, 1)}
	f.save(text)
	log := slog.New(slog.NewTextHandler(f.logs, nil))
	var err error
	if f.tokens, err = web.FollowTokens(f.file, f.kick, log); err != nil {
		t.Fatal(err)
	}
	_, f.base = start(t, web.Options{Tokens: f.tokens, Logger: log}, func(s *web.Server) {
		s.Handle("/stream", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, f.tokens.Principal(r)+"\n")
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}))
	})
	return f
}

// save replaces the file as editors do.
func (f *followed) save(text string) {
	f.Helper()
	next := f.file + ".new"
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		f.Fatal(err)
	}
	if err := os.Rename(next, f.file); err != nil {
		f.Fatal(err)
	}
}

func (f *followed) status(token string) int {
	f.Helper()
	res, _ := ask(f.T, "GET", f.base+"/events", header{"Authorization": "Bearer " + token}, "")
	return res.StatusCode
}

// stream opens a stream and returns a channel that is closed when it has ended.
func (f *followed) stream(client *http.Client, token string) <-chan struct{} {
	f.Helper()
	q, err := http.NewRequestWithContext(f.Context(), "GET", f.base+"/stream", nil)
	if err != nil {
		f.Fatal(err)
	}
	if token != "" {
		q.Header.Set("Authorization", "Bearer "+token)
	}
	p, err := client.Do(q)
	if err != nil || p.StatusCode != http.StatusOK {
		f.Fatalf("%v %v", p, err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, p.Body)
		_ = p.Body.Close()
	}()
	return ended
}

func over(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
		return false
	}
}

// While the server runs, a new token is accepted and a removed one refused. The streams of the
// removed token end, including those of logins with it; other streams continue.
func TestTokensAreFollowed(t *testing.T) {
	t.Parallel()
	f := follow(t, "a "+tokenA+"\nb "+tokenB+"\n")
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer browser.CloseIdleConnections()
	p, err := browser.PostForm(f.base+"/login", url.Values{"token": {tokenA}})
	if err != nil {
		t.Fatal(err)
	}
	_ = p.Body.Close()
	ofA, ofB, ofLogin := f.stream(http.DefaultClient, tokenA), f.stream(http.DefaultClient, tokenB), f.stream(browser, "")
	f.save("b " + tokenB + "\nc " + tokenC + "\n")
	eventually(t, func() bool { return over(ofA) && over(ofLogin) })
	if f.status(tokenA) != http.StatusUnauthorized || f.status(tokenB) != http.StatusOK || f.status(tokenC) != http.StatusOK || over(ofB) {
		t.Error("other tokens than the removed one are refused, or it is not")
	}
	if p, err = browser.Get(f.base + "/events"); err != nil || p.StatusCode != http.StatusUnauthorized {
		t.Errorf("the login with the removed token: %v %v", p, err)
	}
	_ = p.Body.Close()
	if f.tokens.Holds("a") || !f.tokens.HoldsPrincipal("name c") || f.tokens.HoldsPrincipal("name a") || f.tokens.HoldsPrincipal("") {
		t.Error("the held names or principals are wrong")
	}
	eventually(t, func() bool { return strings.Contains(f.logs.String(), "new=1 removed=1") }) // after the streams have ended
	if text := f.logs.String(); strings.Contains(text, "0123456789") {
		t.Errorf("the log is %s", text)
	}
	f.save("b " + tokenC + "\n") // the same client
	eventually(t, func() bool { return over(ofB) })
	if f.status(tokenB) != http.StatusUnauthorized || f.status(tokenC) != http.StatusOK {
		t.Error("other tokens than the replaced one are refused, or it is not")
	}
}

// While the file cannot be used, the previous tokens stay valid, and one warning is logged.
func TestUnusableTokenFile(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(f *followed){
		"missing": func(f *followed) { _ = os.Remove(f.file) },
		"empty":   func(f *followed) { _ = os.WriteFile(f.file, nil, 0o600) },
		"invalid": func(f *followed) { f.save("a b c d") },
		"mode": func(f *followed) {
			_ = os.Chmod(f.file, 0o644)
			_ = os.WriteFile(f.file, []byte(tokenB), 0o600)
		},
		"folder": func(f *followed) { _ = os.Remove(f.file); _ = os.Mkdir(f.file, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := follow(t, tokenA)
			stream := f.stream(http.DefaultClient, tokenA)
			spoil(f)
			eventually(t, func() bool { return strings.Contains(f.logs.String(), "stay valid; correct the file") })
			for range 3 {
				f.kick <- struct{}{}
				eventually(t, func() bool { return len(f.kick) == 0 })
			}
			if f.status(tokenA) != http.StatusOK || over(stream) {
				t.Error("the previous token is no longer valid")
			}
			if text := f.logs.String(); strings.Count(text, "WARN") != 1 || strings.Contains(text, "0123456789") {
				t.Errorf("the log is %s", text)
			}
			if name == "mode" { // fixed without a change of the content
				_ = os.Chmod(f.file, 0o600)
			} else {
				_ = os.Remove(f.file)
				f.save(tokenB)
			}
			eventually(t, func() bool { return over(stream) })
			if f.status(tokenA) != http.StatusUnauthorized || f.status(tokenB) != http.StatusOK {
				t.Error("the corrected file is not used")
			}
		})
	}
}

// If others gain read access to the file, this is reported although its tokens are the same; its
// end is reported as well.
func TestTokenFileBecomesReadable(t *testing.T) {
	t.Parallel()
	f := follow(t, tokenA)
	if err := os.Chmod(f.file, 0o644); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return strings.Contains(f.logs.String(), "stay valid; correct the file") })
	if err := os.Chmod(f.file, 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool { return strings.Contains(f.logs.String(), "the token file was read again") })
	if f.status(tokenA) == http.StatusUnauthorized {
		t.Error("the token is no longer valid")
	}
}

// Two clients cannot share a token.
func TestOneTokenOfTwoClients(t *testing.T) {
	t.Parallel()
	if _, err := web.FollowTokens(tokenFile(t, "alice "+tokenA+"\nbob "+tokenA+"\n"), nil, nil); err == nil || !strings.Contains(err.Error(), "line 2: this token also belongs to alice") || strings.Contains(err.Error(), tokenA) {
		t.Error(err)
	}
}

// A file with a token that is too weak for the address is not used.
func TestWeakTokenLater(t *testing.T) {
	t.Parallel()
	f := &followed{T: t, file: filepath.Join(t.TempDir(), "token"), logs: &syncBuffer{}}
	f.save(tokenA)
	log := slog.New(slog.NewTextHandler(f.logs, nil))
	tokens, err := web.FollowTokens(f.file, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	s, err := web.New(web.Options{Tokens: tokens, Logger: log, TrustProxy: true})
	if err != nil {
		t.Fatal(err)
	}
	ln, err := s.Listen(t.Context(), "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	serve(t, s, ln)
	f.save("short-token-0123")
	eventually(t, func() bool { return strings.Contains(f.logs.String(), "too easy to guess") })
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	f.base = "http://127.0.0.1:" + port
	if f.status("short-token-0123") != http.StatusUnauthorized || f.status(tokenA) != http.StatusNotFound {
		t.Error("the weak token is used")
	}
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
	load := func(file string) (*web.Tokens, error) { return web.FollowTokens(file, nil, nil) }
	with := func(values ...string) *http.Request {
		return &http.Request{Header: http.Header{"Authorization": values}}
	}
	one, err := load(write("good", secret+"\r\n", 0o600))
	if err != nil || one.Identify(with("Bearer "+secret)) == "" || one.Identify(with("Bearer "+secret+"x")) != "" || one.Identify(with("Bearer ")) != "" {
		t.Errorf("good: %v", err)
	}
	if (*web.Tokens)(nil).Identify(with("Bearer ")) != "" {
		t.Error("no token is a token")
	}
	named, err := load(write("named", "\nchat "+secret+"1\nchat\t"+secret+"2\n"+secret+"\n", 0o600))
	if err != nil || !named.Holds("chat") || !named.Holds(web.DefaultName) || named.Holds("other") {
		t.Errorf("named: %v", err)
	}
	for header, want := range map[string]string{
		"Bearer " + secret + "1": "chat", "bearer " + secret + "2": "chat", "Bearer " + secret: web.DefaultName,
		"Bearer " + secret + "3": "", "Basic " + secret: "", "": "",
	} {
		if got := named.Identify(with(header)); got != want {
			t.Errorf("%q: %q", header, got)
		}
	}
	if got := named.Identify(with("Bearer "+secret, "Bearer "+secret)); got != "" {
		t.Errorf("two headers: %q", got)
	}
	principal := func(header string) string { return named.Principal(with(header)) }
	chat, unnamed := principal("Bearer "+secret+"1"), principal("Bearer "+secret)
	if chat == "" || unnamed == "" || chat == unnamed || principal("bearer  "+secret+"2 ") != chat || principal("BEARER "+secret) != unnamed ||
		principal("Bearer "+secret+"3") != "" || strings.Contains(unnamed+chat, secret) {
		t.Errorf("principals %q and %q", chat, unnamed)
	}
	several, err := load(write("several", secret+"1\n"+secret+"2\n", 0o600))
	if err != nil {
		t.Fatal(err)
	}
	first, second := several.Principal(with("Bearer "+secret+"1")), several.Principal(with("Bearer "+secret+"2"))
	if first == "" || second == "" || first == second {
		t.Errorf("the principals of two tokens without names are %q and %q", first, second)
	}
	for _, file := range []string{
		write("name", "a/b "+secret, 0o600), write("words", "a b "+secret, 0o600), write("weak", secret+"\nchat abc", 0o600),
		write("group", secret, 0o640), write("world", secret, 0o604), write("short", "abc", 0o600), write("empty", "", 0o600),
		write("spaces", secret+" "+secret, 0o600), write("binary", strings.Repeat("\x00", 32), 0o600),
		write("huge", strings.Repeat("x", 1<<20), 0o600), dir, filepath.Join(dir, "missing"),
	} {
		_, err := load(file)
		if _, ok := errors.AsType[*web.OptionError](err); !ok {
			t.Errorf("%s: %v", filepath.Base(file), err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error shows the token", filepath.Base(file))
		}
	}
}

// Only a token that is marked with the word path may be in the path of an MCP endpoint. It
// identifies the same client as in a header, and neither it nor a wrong one is logged.
func TestTokenInPath(t *testing.T) {
	const marked, plain, wrong = "marked-0123456789-abcdefgh", "plain-0123456789-abcdefgh", "wrong-0123456789-abcdefgh"
	tokens, err := web.FollowTokens(tokenFile(t, "chat "+marked+" path\nother "+plain+"\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	logs := &syncBuffer{}
	opts := web.Options{Tokens: tokens, MCP: true, Logger: slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))}
	for path, want := range map[string]string{
		"/mcp/" + marked:          "200 chat /mcp /mcp",
		"/mcp/" + marked + "?a=b": "200 chat /mcp?a=b /mcp?a=b",
		"/mcp/" + marked + "/":    "401",
		"/mcp/" + plain:           "401",
		"/mcp/" + wrong:           "401",
		"/mcp/":                   "401",
		"/api/" + marked:          "401",
	} {
		for _, h := range []header{{}, {"Authorization": "Bearer " + plain}} {
			if len(h) > 0 && !strings.HasPrefix(path, "/mcp/") {
				continue // another route
			}
			_, url := start(t, opts, func(s *web.Server) {
				s.Handle("/mcp", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, _ = io.WriteString(w, tokens.Identify(r)+" "+r.URL.String()+" "+r.RequestURI)
				}))
			})
			p, body := ask(t, http.MethodPost, url+path, h, "")
			got := strconv.Itoa(p.StatusCode)
			if p.StatusCode == http.StatusOK {
				got += " " + body
			}
			if got != want {
				t.Errorf("%s with %v: %s, want %s", path, h, got, want)
			}
		}
	}
	if text := logs.String(); strings.Contains(text, "/mcp/") || !strings.Contains(text, "wrong token") {
		t.Error(text)
	}
	opts.MCP = false
	_, url := start(t, opts, nil)
	if p, _ := ask(t, http.MethodGet, url+"/mcp/"+marked, header{}, ""); p.StatusCode != http.StatusUnauthorized {
		t.Errorf("%d without an MCP endpoint", p.StatusCode)
	}
}

// A path that may contain a token is neither logged nor repeated to the client, however the
// request is refused.
func TestNoPathIsLoggedOrEchoed(t *testing.T) {
	const mine = "marked-0123456789-abcdefgh"
	tokens, err := web.FollowTokens(tokenFile(t, "chat "+mine+" path\n"), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	handle := func(s *web.Server) {
		s.Handle("/mcp", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
		s.Handle("GET /api/{id}/log", http.NotFoundHandler())
		s.Handle("GET /assets/", http.NotFoundHandler())
		s.Handle("/hooks/", web.Open{Handler: http.NotFoundHandler()})
	}
	paths := []string{"/mcp/T", "//mcp/T", "/mcp//T", "///mcp///T//", "/x/mcp/T", "/mcp/T/", "/mcp/T/..", "/mcp/./T", "/a/../mcp/T", "/MCP/T", "/mcp%2FT", "/mcp%2fT/", "/%6dcp/T",
		"/mcp/T%00", "/mcp/T?a=b", "/mcp;/T", "/mcp\\T", "/T", "/T/mcp", "/mcpT", "/hooks/T", "//hooks/T", "/hooks/../T", "/api/T/log", "/api//T/log", "/assets/T", "/assets/../T", "/./api/T/log"}
	for _, tokens := range []*web.Tokens{nil, tokens} {
		for _, mcp := range []bool{false, true} {
			logs := &syncBuffer{}
			_, base := start(t, web.Options{Tokens: tokens, MCP: mcp, Logger: slog.New(slog.NewTextHandler(logs, &slog.HandlerOptions{Level: slog.LevelDebug}))}, handle)
			host := strings.TrimPrefix(base, "http://")
			for i, path := range paths {
				path = strings.ReplaceAll(path, "T", mine)
				for j, target := range []string{path, base + path} {
					for k, method := range []string{"GET", "POST", "OPTIONS", "CONNECT", "TRACE"} {
						headers := []string{"Authorization: Bearer " + mine, "Authorization: Bearer wrong", "Origin: https://evil.example", "Content-Length: 3", "Accept: text/html", "Host: evil.example"}
						for _, more := range []string{"", headers[(i+j+k)%len(headers)]} {
							request := method + " " + target + " HTTP/1.1\r\nConnection: close\r\n"
							if !strings.HasPrefix(more, "Host:") {
								request += "Host: " + host + "\r\n"
							}
							if more != "" {
								request += more + "\r\n"
							}
							answer := exchange(t, host, request+"\r\n")
							if !strings.HasPrefix(answer, "HTTP/1.1 ") || strings.Contains(answer, mine) {
								t.Fatalf("%q is answered\n%s", request, answer)
							}
						}
					}
				}
			}
			if text := logs.String(); strings.Contains(text, mine) || !strings.Contains(text, `route="GET /api/{id}/log"`) && tokens.Set() {
				t.Errorf("token %t, MCP %t:\n%.3000s", tokens.Set(), mcp, text)
			}
		}
	}
}

// exchange sends a request and returns the complete answer.
func exchange(t *testing.T, host, request string) string {
	t.Helper()
	c, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(c, request); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(c) // a reset after the answer does not matter
	return string(answer)
}
