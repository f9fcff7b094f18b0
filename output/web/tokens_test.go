package web_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

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

// A new token is accepted and a removed one refused while the server runs. Streams of the removed
// one end, also those of logins with it; others go on.
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
		t.Error("not exactly the removed token is refused")
	}
	if p, err = browser.Get(f.base + "/events"); err != nil || p.StatusCode != http.StatusUnauthorized {
		t.Errorf("the login with the removed token: %v %v", p, err)
	}
	_ = p.Body.Close()
	if f.tokens.Holds("a") || !f.tokens.HoldsPrincipal("name c") || f.tokens.HoldsPrincipal("name a") || f.tokens.HoldsPrincipal("") {
		t.Error("whose tokens are held is wrong")
	}
	if text := f.logs.String(); !strings.Contains(text, "new=1 removed=1") || strings.Contains(text, "0123456789") {
		t.Errorf("the log is %s", text)
	}
	f.save("b " + tokenC + "\n") // the same client
	eventually(t, func() bool { return over(ofB) })
	if f.status(tokenB) != http.StatusUnauthorized || f.status(tokenC) != http.StatusOK {
		t.Error("the replaced token is not the one that is refused")
	}
}

// While the file cannot be used, the last tokens stay valid, which one warning says.
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
				t.Error("the last token is not valid any more")
			}
			if text := f.logs.String(); strings.Count(text, "WARN") != 1 || strings.Contains(text, "0123456789") {
				t.Errorf("the log is %s", text)
			}
			if name == "mode" { // what is wrong is mended without another content
				_ = os.Chmod(f.file, 0o600)
			} else {
				_ = os.Remove(f.file)
				f.save(tokenB)
			}
			eventually(t, func() bool { return over(stream) })
			if f.status(tokenA) != http.StatusUnauthorized || f.status(tokenB) != http.StatusOK {
				t.Error("the mended file is not used")
			}
		})
	}
}

// A file that others may read now is reported although its tokens are the same, and so is its end.
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
	eventually(t, func() bool { return strings.Contains(f.logs.String(), "can be used again") })
	if f.status(tokenA) == http.StatusUnauthorized {
		t.Error("the token is not valid any more")
	}
}

// A token tells clients apart only if each has its own.
func TestOneTokenOfTwoClients(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(path, []byte("alice "+tokenA+"\nbob "+tokenA+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := web.LoadToken(path); err == nil || !strings.Contains(err.Error(), "line 2: this token also belongs to alice") || strings.Contains(err.Error(), tokenA) {
		t.Error(err)
	}
}

// A file that says less than the address requires is not used either.
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
