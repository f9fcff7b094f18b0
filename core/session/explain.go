package session

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

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
		case h.Status == http.StatusNotFound, h.Status == http.StatusMethodNotAllowed, h.Status == http.StatusGone:
			return fmt.Sprintf("there is no MCP server at %s (HTTP %d); the path is often /mcp or /sse", at, h.Status)
		case h.Status == http.StatusBadRequest && u.Scheme == "http":
			return fmt.Sprintf("%s refuses the connection (HTTP %d); if it uses TLS, the URL begins with https", at, h.Status)
		case h.Status >= 500:
			return fmt.Sprintf("the server at %s fails (HTTP %d)", at, h.Status)
		}
		return fmt.Sprintf("%s refuses the connection (HTTP %d)", at, h.Status)
	}
	if _, plain := errors.AsType[tls.RecordHeaderError](err); plain || errors.Is(err, http.ErrSchemeMismatch) {
		return at + " does not use TLS; if that is intended, the URL begins with http"
	}
	text := err.Error()
	if _, kind, found := strings.Cut(text, "unexpected content type: "); found { // the text is the library's
		kind, _, _ = strings.Cut(kind, "\n")
		if strings.HasPrefix(kind, "text/html") {
			return at + " is a web page, not an MCP server"
		}
		return fmt.Sprintf("%s is not an MCP server: it answers with the content type %s", at, printable.Line(kind, 60))
	}
	if strings.Contains(text, "the response is not JSON") {
		return at + " is not an MCP server: the response is not JSON"
	}
	return ""
}
