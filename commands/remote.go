package commands

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/printable"
)

// remoteFlags are the flags of commands that ask a running serve-sse.
type remoteFlags struct {
	tokenFile string
	insecure  bool
}

func (r *remoteFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.tokenFile, "token-file", "", "`FILE` (mode 0600) with the token of the serve-sse (default $MCPTRACK_TOKEN)")
	f.BoolVar(&r.insecure, "insecure", false, "send the token without encryption to another machine")
	_ = cmd.MarkFlagFilename("token-file")
}

// token returns the token for an address, "" if there is none. It is never sent
// unencrypted to another machine unless --insecure says so.
func (r *remoteFlags) token(env *Env, to *url.URL) (string, error) {
	token := strings.TrimSpace(env.getenv("MCPTRACK_TOKEN"))
	if r.tokenFile != "" {
		var err error
		if token, err = readSecret("token-file", r.tokenFile); err != nil {
			return "", err
		}
	}
	if token != "" && to.Scheme == "http" && !ipscope.ThisMachine(to.Hostname()) && !r.insecure {
		return "", usageHint("use https, or add --insecure", "the connection to %s is not encrypted: others could read the token", printable.Line(to.Host, 200))
	}
	return token, nil
}

// bearer is the header that carries a token.
func bearer(token string) http.Header {
	h := http.Header{}
	if token != "" {
		h.Set("Authorization", "Bearer "+token)
	}
	return h
}

// parseServeURL parses the address of a serve-sse. what names it in errors.
func parseServeURL(what, text string) (*url.URL, error) {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "" || u.Scheme != "http" && u.Scheme != "https":
		return nil, usage("invalid %s %q; expected http://HOST:PORT or https://HOST:PORT", what, printable.Line(text, 200))
	case u.User != nil:
		return nil, usage("%s: the URL must not have a password, which would end up in logs; use MCPTRACK_TOKEN or a token file", what)
	}
	u.Fragment = ""
	return u, nil
}
