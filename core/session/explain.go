package session

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session/internal/wire"
)

// dialError is an error from [Dial] whose text begins with what the user can act on. It is one line
// without secrets.
type dialError struct {
	text string
	err  error
}

func (e *dialError) Error() string { return e.text }
func (e *dialError) Unwrap() error { return e.err }

// explain returns an error that says in one line why a server could not be connected to.
func explain(srv config.Server, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	text := ""
	if srv.Transport != config.TransportStdio {
		text = explainHTTP(srv, err)
	}
	if text == "" {
		text = strings.Join(attempts(err), "; ")
	}
	return &dialError{text, err}
}

// attempts returns the distinct texts of the attempts to connect whose errors err joins.
func attempts(err error) []string {
	joined, several := err.(interface{ Unwrap() []error }) //nolint:errorlint // an error that wraps a join has its own text
	if !several || !strings.Contains(err.Error(), "\n") {
		return []string{printable.Reason(err, 1000)}
	}
	var texts []string
	for _, one := range joined.Unwrap() {
		for _, text := range attempts(one) {
			if !slices.Contains(texts, text) {
				texts = append(texts, text)
			}
		}
	}
	return texts
}

// explainHTTP returns what is wrong with a URL, or "" if the error itself says it.
func explainHTTP(srv config.Server, err error) string {
	if notYet(err) {
		return ""
	}
	if _, answered := errors.AsType[*RPCError](err); answered {
		return ""
	}
	u, parseErr := url.Parse(srv.URL.Reveal())
	if parseErr != nil {
		return ""
	}
	at := wire.ShowURL(u, newRedactor(secretsOf(srv)).text)
	if h, ok := errors.AsType[*HTTPError](err); ok {
		switch {
		case h.Status == http.StatusNotFound, h.Status == http.StatusMethodNotAllowed, h.Status == http.StatusGone, h.Status == http.StatusNotImplemented:
			return fmt.Sprintf("there is no MCP server at %s (HTTP %d); the path is often /mcp or /sse", at, h.Status)
		case h.Status == http.StatusBadRequest && u.Scheme == "http":
			return fmt.Sprintf("%s refuses the connection (HTTP %d); if it uses TLS, use https in the URL", at, h.Status)
		case h.Status >= 500:
			return fmt.Sprintf("%s responded with an internal error (HTTP %d)", at, h.Status)
		}
		return fmt.Sprintf("%s refuses the connection (HTTP %d)", at, h.Status)
	}
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain || errors.Is(err, http.ErrSchemeMismatch) {
		return at + " does not use TLS; if that is intended, use http in the URL"
	}
	if text := explainNetwork(at, err); text != "" {
		return text
	}
	text := err.Error()
	if _, kind, found := strings.Cut(text, "unexpected content type: "); found {
		kind, _, _ = strings.Cut(kind, "\n")
		if strings.HasPrefix(kind, "text/html") {
			return at + " is a web page, not an MCP server"
		}
		if kind == "" {
			return at + " is not an MCP server: the response has no content type"
		}
		return fmt.Sprintf("%s is not an MCP server: the response has the content type %s", at, printable.Line(kind, 60))
	}
	for _, what := range []string{"the response is not JSON", "the response has no id"} {
		if strings.Contains(text, what) {
			return at + " is not an MCP server: " + what
		}
	}
	return ""
}

// explainNetwork returns why no connection to a URL, shown as at, could be established, or "" if the
// connection did not fail.
func explainNetwork(at string, err error) string {
	dial, failed := errors.AsType[*net.OpError](err)
	if failed && dial.Op == "proxyconnect" {
		return fmt.Sprintf("the proxy: %s; check HTTP_PROXY and HTTPS_PROXY", printable.Reason(dial, 300))
	}
	if unverified, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return explainCertificate(at, unverified)
	}
	advice := "check the network connection"
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		if dns.IsNotFound {
			advice = "check the URL"
		}
		return fmt.Sprintf("%s; %s", printable.Reason(dns, 300), advice)
	}
	if !failed || dial.Op != "dial" {
		return ""
	}
	if errors.Is(err, syscall.ECONNREFUSED) {
		advice = "is the server running?"
	}
	return fmt.Sprintf("cannot connect to %s: %s; %s", at, printable.Reason(printable.Unnamed(dial), 300), advice)
}

// explainCertificate returns what is wrong with a server's certificate and what to do.
func explainCertificate(at string, err *tls.CertificateVerificationError) string {
	if name, ok := errors.AsType[x509.HostnameError](err); ok {
		names := slices.Clone(name.Certificate.DNSNames)
		for _, ip := range name.Certificate.IPAddresses {
			names = append(names, ip.String())
		}
		if len(names) == 0 {
			return fmt.Sprintf("the certificate of %s contains no host name; the server needs another one", at)
		}
		return fmt.Sprintf("the certificate of %s is for %s; use that name in the URL", at, printable.Line(strings.Join(names, ", "), 200))
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired && invalid.Cert != nil {
		const layout = time.DateOnly
		if from := invalid.Cert.NotBefore; time.Now().Before(from) {
			return fmt.Sprintf("the certificate of %s is not valid before %s; check the clock of this machine", at, from.Format(layout))
		}
		return fmt.Sprintf("the certificate of %s expired on %s; renew it on the server, or check the clock of this machine", at, invalid.Cert.NotAfter.Format(layout))
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		advice := "if you trust it, add the authority's certificate to those that this machine trusts"
		if runtime.GOOS != "windows" && runtime.GOOS != "darwin" {
			advice += ", or set SSL_CERT_FILE to a file that contains it"
		}
		return fmt.Sprintf("the certificate of %s is from an unknown authority; %s", at, advice)
	}
	return ""
}
