//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

// The proxy forwards an application's traffic unchanged and injects messages into its conversation. Pages of
// other sites are rejected.
func TestInjectProxy(t *testing.T) {
	t.Parallel()
	far := &realtimetest.Endpoint{Message: func(c *realtimetest.Conn, typ websocket.MessageType, b []byte) {
		_ = c.Write(c.Context(), typ, b)
	}}
	x := injectBeside(t, nil, "--listen", "127.0.0.1:0", "--upstream", endpoint(t, far), "--config", demoFile(t))
	url := <-x.ready
	if !strings.HasPrefix(url, "ws://127.0.0.1:") {
		t.Fatalf("listening on %s", url)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	app, _, err := websocket.Dial(ctx, url+"/?model=m", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer of-the-app"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = app.CloseNow() }()
	audio := bytes.Repeat([]byte{1, 2, 3, 4}, 2500)
	if err := app.Write(ctx, websocket.MessageBinary, audio); err != nil {
		t.Fatal(err)
	}
	for echoed, added := false, false; !echoed || !added; {
		typ, b, err := app.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		echoed = echoed || typ == websocket.MessageBinary && bytes.Equal(b, audio)
		added = added || bytes.Contains(b, []byte(`"conversation.item.added"`))
	}
	x.receipts(1)
	if q := far.Requests()[0]; q.URL.String() != "/v1/realtime?model=m" || q.Header.Get("Authorization") != "Bearer of-the-app" {
		t.Errorf("handshake %v %v", q.URL, q.Header)
	}
	_, res, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://evil.example"}}})
	if err == nil || res == nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("another site: %v %v", err, res)
	} else if why, _ := io.ReadAll(res.Body); !strings.Contains(string(why), "--allow-origin https://evil.example") {
		t.Errorf("another site is refused with %q", why)
	}
	_ = x.cmd.Process.Signal(syscall.SIGTERM)
	for err == nil || websocket.CloseStatus(err) == -1 {
		if _, _, err = app.Read(ctx); err != nil && websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Fatalf("the session ended with %v", err)
		}
	}
	x.exits(0)
	if n := len(x.stderr); n != 1 {
		t.Errorf("%d lines on stderr: %q", n, x.stderr)
	}
}

// certificate returns files with a certificate for 127.0.0.1, and a client that trusts it.
func certificate(t *testing.T) (certFile, keyFile string, client *http.Client) {
	t.Helper()
	certified := httptest.NewTLSServer(nil)
	defer certified.Close()
	pair := certified.TLS.Certificates[0]
	key, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	save(t, certFile, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})))
	save(t, keyFile, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: key})))
	return certFile, keyFile, certified.Client()
}

// With a token, applications need no key, and the token is not forwarded to the endpoint.
func TestInjectProxyToken(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("token-0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	far := &realtimetest.Endpoint{}
	x := injectBeside(t, []string{"OPENAI_API_KEY=" + testKey}, "--listen", "127.0.0.1:0", "--upstream", endpoint(t, far), "--config", demoFile(t), "--token-file", token)
	url := <-x.ready
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if _, res, err := websocket.Dial(ctx, url, nil); err == nil || res == nil || res.StatusCode != http.StatusUnauthorized {
		t.Errorf("without a token: %v %v", err, res)
	}
	app, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer token-0123456789abcdef"}, "Cookie": {"mcptrack=ticket"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = app.CloseNow() }()
	if q := far.Requests()[0]; q.Header.Get("Authorization") != "Bearer "+testKey || q.Header.Get("Cookie") != "" || len(far.Requests()) != 1 {
		t.Errorf("handshake %v", q.Header)
	}
	if err := os.WriteFile(token, []byte("another-0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	for err == nil { // the session ends with the token
		_, _, err = app.Read(ctx)
	}
	if ctx.Err() != nil {
		t.Error("the session with the removed token continues")
	}
	again, _, err := websocket.Dial(ctx, url, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer another-0123456789abcdef"}}})
	if err != nil {
		t.Fatal(err)
	}
	_ = again.CloseNow()
}

// The official clients of the Realtime API, openai's OpenAIRealtimeWS and
// @openai/agents-realtime, through the proxy and TLS to a third-party endpoint (aimock): both
// see the messages as user messages and no error, and the model gets them with the next response.
func TestRealRealtimePackages(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	certFile, keyFile, _ := certificate(t)
	cmd := nodeCommand(ctx, t, "realtime.mjs")
	cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+certFile)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errs.Close() }()
	cmd.Stderr = errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait()
	}()
	lines := bufio.NewReader(stdout)
	line := func() string {
		text, err := lines.ReadString('\n')
		if err != nil {
			stderr, _ := os.ReadFile(errs.Name())
			t.Fatalf("realtime.mjs: %v\n%s", err, stderr)
		}
		return strings.TrimSpace(text)
	}
	x := injectBeside(t, nil, "--config", demoFile(t), "--listen", "127.0.0.1:0", "--upstream", line(), "--tls-cert", certFile, "--tls-key", keyFile)
	if _, err := fmt.Fprintln(stdin, <-x.ready); err != nil {
		t.Fatal(err)
	}
	var saw struct {
		OpenAI struct {
			Items, Errors []string
			Said          string
		}
		Agents struct{ Items, Errors []string }
		Asked  []string
	}
	if err := json.Unmarshal([]byte(line()), &saw); err != nil {
		t.Fatal(err)
	}
	message := regexp.MustCompile(`^Resource vault://\S+ updated for MCP server demo at \d{4}-\d\d-\d\dT[\d:.]+Z$`)
	for name, items := range map[string][]string{"openai": saw.OpenAI.Items, "agents": saw.Agents.Items} {
		if len(items) < 2 {
			t.Errorf("%s saw %q", name, items)
		}
		for _, item := range items {
			if !message.MatchString(item) {
				t.Errorf("%s saw %q", name, item)
			}
		}
	}
	if errs := append(saw.OpenAI.Errors, saw.Agents.Errors...); len(errs) > 0 || saw.OpenAI.Said != "Understood." {
		t.Errorf("the model answered %q, errors %q", saw.OpenAI.Said, errs)
	}
	for _, item := range saw.OpenAI.Items {
		if !strings.Contains(strings.Join(saw.Asked, ""), item) {
			t.Errorf("the model did not get %q but %q", item, saw.Asked)
		}
	}
}
