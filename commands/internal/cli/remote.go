package cli

import (
	"net/http"
	"net/url"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// Bearer is the header that carries a token.
func Bearer(token string) http.Header {
	h := http.Header{}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return h
}

// ParseServeURL parses the address of a serve-sse. what names it in errors.
func ParseServeURL(what, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, Usage("invalid %s %q; expected http://HOST:PORT or https://HOST:PORT", what, printable.Line(text, 200))
	case u.User != nil:
		return nil, Usage("%s: the URL must not have a password, which would end up in logs; use MCPTRACK_TOKEN or a token file", what)
	}
	u.Fragment = ""
	return u, nil
}

// ReadSecret reads the file that a flag names.
func ReadSecret(flag, file string) (string, error) {
	secret, err := secretfile.Read(file)
	if err != nil {
		return "", Usage("--%s: %w", flag, err)
	}
	return secret, nil
}
