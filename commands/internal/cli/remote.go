package cli

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
	"github.com/mcptrack/mcptrack/output/remote"
)

// ParseServeURL parses the address of a serve-sse. what describes the address in errors.
func ParseServeURL(what, text string) (*url.URL, error) {
	u, err := url.Parse(httpURL(text))
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, Usage("invalid %s %q; expected http://HOST:PORT, https://HOST:PORT, HOST:PORT or a port", what, printable.Line(text, 200))
	case u.User != nil:
		return nil, Usage("%s: the URL must not have a password, which would end up in logs; use MCPTRACK_TOKEN or a token file", what)
	}
	u.Fragment = ""
	return u, nil
}

// ServeToken returns the token for the serve-sse at an address, from the file that a flag specifies
// or from MCPTRACK_TOKEN, or "" if there is none. Unless insecure is set, it returns an error
// instead of a token that would be sent unencrypted to another machine.
func ServeToken(env *Env, to *url.URL, flag, file string, insecure bool) (string, error) {
	token := strings.TrimSpace(env.Getenv("MCPTRACK_TOKEN"))
	if file != "" {
		var err error
		if token, err = ReadSecret(flag, file); err != nil {
			return "", err
		}
	}
	if token != "" && to.Scheme == "http" && !ipscope.ThisMachine(to.Hostname()) && !insecure {
		return "", UsageHint("use https, or add --insecure", "the connection to %s is not encrypted: others could read the token", printable.Line(to.Host, 200))
	}
	return token, nil
}

// Bearer returns the request header for a token. Without a token the header is empty.
func Bearer(token string) http.Header {
	h := http.Header{}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return h
}

// FeedFailure converts a feed's refusal into a failure. what describes the feed, and flag is the
// flag for its token file. Other errors are returned unchanged.
func FeedFailure(err error, what, flag string) error {
	refused, ok := errors.AsType[*remote.FeedRefusedError](err)
	if !ok {
		return err
	}
	f := &Failure{Exit: ExitRefused, Code: "refused", Err: fmt.Errorf("%s: %w", what, refused), Hint: "check that it is the address of a serve-sse"}
	if refused.Status == http.StatusUnauthorized {
		f.Hint = "set MCPTRACK_TOKEN, or specify the token file with --" + flag
	}
	return f
}

// ReadSecret reads a secret from the file that a flag specifies.
func ReadSecret(flag, file string) (string, error) {
	secret, err := secretfile.Read(file)
	if err != nil {
		return "", Usage("--%s: %w", flag, err)
	}
	return secret, nil
}
