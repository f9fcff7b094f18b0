package printable

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Errors of Go's library as they really occur, alone and wrapped.
func TestReason(t *testing.T) {
	unknownMember := func(text string) error {
		d := json.NewDecoder(strings.NewReader(text))
		d.DisallowUnknownFields()
		return d.Decode(&struct{ A int }{})
	}
	quiet := log.New(io.Discard, "", 0)
	plain, secure := httptest.NewServer(nil), httptest.NewUnstartedServer(nil)
	secure.Config.ErrorLog = quiet
	secure.StartTLS()
	hangs := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }))
	drops := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := http.NewResponseController(w).Hijack()
		_ = c.Close()
	}))
	ssh := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		c, _, _ := http.NewResponseController(w).Hijack()
		_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.6\r\n")
		_ = c.Close()
	}))
	for _, s := range []*httptest.Server{plain, secure, hangs, drops, ssh} {
		t.Cleanup(s.Close)
	}
	closed := httptest.NewServer(nil)
	closed.Close()
	addr := strings.TrimPrefix(closed.URL, "http://")
	get := func(url string) error {
		c := http.Client{Timeout: time.Minute}
		if strings.HasPrefix(url, hangs.URL) {
			c.Timeout = 50 * time.Millisecond
		}
		_, err := c.Get(url + "/?token=sesame")
		return err
	}
	second := func(_ any, err error) error { return err }
	nowhere := filepath.Join(t.TempDir(), "none")
	expired, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"refused", second(net.Dial("tcp", addr)), "cannot connect to " + addr + ": connection refused"},
		{"refused request", get(closed.URL), "cannot connect to " + addr + ": connection refused"},
		{"name", &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: "no such host", Name: "a.invalid", Server: "10.0.0.1:53", IsNotFound: true}}, `there is no host named "a.invalid"`},
		{"slow name", &net.DNSError{Err: "read udp 10.0.0.1:53: i/o timeout", Name: "a.invalid", IsTimeout: true}, `cannot look up the host "a.invalid": timed out`},
		{"port", second(net.Dial("tcp", "127.0.0.1:99999")), `invalid address "99999": invalid port`},
		{"taken", second(net.Listen("tcp", strings.TrimPrefix(plain.URL, "http://"))), "cannot listen on " + strings.TrimPrefix(plain.URL, "http://") + ": address already in use"},
		{"certificate", get(secure.URL), "the server's certificate is not valid: certificate signed by unknown authority"},
		{"no TLS", get("https" + strings.TrimPrefix(plain.URL, "http")), "the other side does not use TLS"},
		{"hangs", get(hangs.URL), "timed out"},
		{"drops", get(drops.URL), "the connection was closed"},
		{"no HTTP", get(ssh.URL), "the other side does not speak HTTP"},
		{"scheme", get("gopher://x"), `unsupported protocol scheme "gopher"`},
		{"deadline", expired.Err(), "timed out"},
		{"file", second(os.Stat(nowhere)), nowhere + ": no such file or directory"},
		{"hostile file", second(os.Open("a\x1b[2Jb")), `a\x1b[2Jb: no such file or directory`},
		{"rename", os.Rename(nowhere, nowhere+"2"), nowhere + "2: no such file or directory"},
		{"program", second(exec.LookPath("no-such-program")), `cannot run "no-such-program": executable file not found in $PATH`},
		{"number", second(strconv.Atoi("x\n")), `invalid number "x\n"`},
		{"large number", second(strconv.ParseInt("99999999999999999999", 10, 64)), `the number "99999999999999999999" is out of range`},
		{"duration", second(time.ParseDuration("x")), `invalid duration "x"`},
		{"JSON", json.Unmarshal([]byte(`{"a":tru}`), new(any)), "invalid JSON after 9 bytes: invalid character '}' in literal true (expecting 'e')"},
		{"JSON type", json.Unmarshal([]byte(`{"a":"x"}`), &struct{ A int }{}), `invalid JSON: "A" cannot be a string`},
		{"JSON member", unknownMember(`{"b":1}`), `unknown field "b"`},
		{"end", io.ErrUnexpectedEOF, "the data ended unexpectedly"},
		{"lines", errors.New("2 errors:\n  first\r\n\tsecond"), "2 errors: first second"},
		{"ours", errors.New("no such resource"), "no such resource"},
	} {
		if c.err == nil {
			t.Errorf("%s: there is no error", c.name)
			continue
		}
		for wrapped, want := range map[error]string{
			c.err:                                c.want,
			fmt.Errorf("server docs: %w", c.err): "server docs: " + c.want,
			fmt.Errorf("a %w, b", fmt.Errorf("c %w", c.err)): "a c " + c.want + ", b",
			errors.Join(errors.New("first"), c.err):          "first; " + c.want,
		} {
			if got := Reason(wrapped, 0); got != want {
				t.Errorf("%s: %q\nis %q\nwant %q", c.name, wrapped, got, want)
			}
		}
	}
	if got := Reason(nil, 0); got != "" {
		t.Errorf("no error: %q", got)
	}
	if got := Reason(errors.New("abcdef"), 4); got != "abcd…" {
		t.Errorf("%q is too long", got)
	}
}

func TestUnnamed(t *testing.T) {
	closed := httptest.NewServer(nil)
	closed.Close()
	_, requested := http.Get(closed.URL)
	_, opened := os.Open(filepath.Join(t.TempDir(), "none"))
	for err, want := range map[error]string{
		requested: "connection refused", opened: "no such file or directory", fmt.Errorf("load: %w", opened): "no such file or directory",
		errors.New("broken"): "broken",
	} {
		if got := Unnamed(err); got.Error() != want || !errors.Is(err, got) {
			t.Errorf("%v: %v", err, got)
		}
	}
}
