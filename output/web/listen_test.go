package web_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

// certificate writes a self-signed certificate for 127.0.0.1 and its key.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	for file, data := range map[string][]byte{certFile: certPEM, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})} {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(certPEM)
	return certFile, keyFile, pool
}

func TestHTTPS(t *testing.T) {
	certFile, keyFile, pool := certificate(t)
	config, err := web.LoadTLS(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	_, base := start(t, web.Options{Tokens: token(t), TLS: config}, nil)
	if !strings.HasPrefix(base, "https://127.0.0.1:") {
		t.Errorf("the URL is %s", base)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.PostForm(base+"/login", url.Values{"token": {secret}})
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusSeeOther || !res.Cookies()[0].Secure {
		t.Errorf("login: %s %v", res.Status, res.Cookies())
	}
	req, _ := http.NewRequest(http.MethodGet, base+"/events", nil)
	req.Header.Set("Origin", base)
	req.AddCookie(res.Cookies()[0])
	if res, err = client.Do(req); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("with the cookie: %v %v", res, err)
	}
	res.Body.Close()
	if !strings.HasPrefix(raw(t, "http://"+strings.TrimPrefix(base, "https://"), "GET / HTTP/1.1\r\nHost: x\r\n\r\n"), "HTTP/1.0 400") {
		t.Error("plain HTTP is served on the port of HTTPS")
	}
}

func TestLoadTLS(t *testing.T) {
	certFile, keyFile, _ := certificate(t)
	_, otherKey, _ := certificate(t)
	open := filepath.Join(t.TempDir(), "open.pem")
	key, _ := os.ReadFile(keyFile)
	if err := os.WriteFile(open, key, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	for _, files := range [][2]string{{certFile, otherKey}, {keyFile, keyFile}, {certFile, certFile}, {certFile, open}, {certFile, "/dev/zero"}, {"/dev/zero", keyFile}, {certFile, "missing"}, {certFile, t.TempDir()}} {
		_, err := web.LoadTLS(files[0], files[1])
		if _, ok := errors.AsType[*web.OptionError](err); !ok {
			t.Errorf("%q: %v", files, err)
		}
	}
}

// An address that other machines can reach requires a token that cannot be guessed. If it is
// sent unencrypted, a warning is logged.
func TestExposedAddress(t *testing.T) {
	certFile, keyFile, _ := certificate(t)
	config, err := web.LoadTLS(certFile, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	for text, ok := range map[string]bool{
		"correcthorsebattery": false, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa": false, "0123456789abcdef": false,
		"9f86d081884c7d659a2feaa0c55ad015": true, "0b5e4f1c-9a3d-4c7e-8f21-6d5b9c0e7a43": true, secret: true, "kZ7w/1rVb+0yqQ3mXc9TnE==": true,
	} {
		var log bytes.Buffer
		for _, opts := range []web.Options{{}, {TLS: config}, {TrustProxy: true}} {
			opts.Tokens, err = web.FollowTokens(tokenFile(t, text), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			log.Reset()
			opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
			s, err := web.New(opts)
			if err != nil {
				t.Fatal(err)
			}
			ln, err := s.Listen(t.Context(), "0.0.0.0:0")
			if err == nil {
				ln.Close()
			}
			if (err == nil) != ok || err != nil && strings.Contains(err.Error(), text) {
				t.Errorf("token of %d characters: %v", len(text), err)
			}
			if plain := opts.TLS == nil && !opts.TrustProxy; strings.Contains(log.String(), "unencrypted") != (ok && plain) {
				t.Errorf("%+v: log %q", opts, log.String())
			}
		}
	}
}
