package commands

import (
	"errors"
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/output/web"
)

// accessFlags are the flags of commands that listen: who may connect, and how.
type accessFlags struct {
	tokenFile  string
	origins    []string
	tlsCert    string
	tlsKey     string
	trustProxy bool
}

// add adds the flags. clients says in help who must present the token, and pages what pages of
// other sites may do.
func (o *accessFlags) add(cmd *cobra.Command, clients, pages string) {
	f := cmd.Flags()
	f.StringVar(&o.tokenFile, "token-file", "", "`FILE` (mode 0600) with the token that "+clients+" must present; it is followed")
	f.StringArrayVar(&o.origins, "allow-origin", nil, "`ORIGIN` of a site whose pages may "+pages+" (repeatable)")
	f.StringVar(&o.tlsCert, "tls-cert", "", "PEM `FILE` with the certificate to serve HTTPS with")
	f.StringVar(&o.tlsKey, "tls-key", "", "PEM `FILE` (mode 0600) with the key of the certificate")
	f.BoolVar(&o.trustProxy, "trust-proxy", false, "trust X-Forwarded-Proto and X-Forwarded-For, as all requests come from a reverse proxy")
	for _, name := range []string{"token-file", "tls-cert", "tls-key"} {
		_ = cmd.MarkFlagFilename(name)
	}
}

// set reports whether any of the flags was given.
func (o *accessFlags) set() bool {
	return o.tokenFile != "" || len(o.origins) > 0 || o.tlsCert != "" || o.tlsKey != "" || o.trustProxy
}

func (o *accessFlags) check() error {
	if (o.tlsCert == "") != (o.tlsKey == "") {
		return usage("--tls-cert and --tls-key must be given together")
	}
	return nil
}

// tokens reads the file of the token; nil without one. reread makes the server read it again; see
// [web.FollowTokens].
func (o *accessFlags) tokens(log *slog.Logger, reread <-chan struct{}) (*web.Tokens, error) {
	if o.tokenFile == "" {
		return nil, nil
	}
	t, err := web.FollowTokens(o.tokenFile, reread, log)
	if err != nil {
		return nil, webFailure(err)
	}
	return t, nil
}

// options reads the other files. Errors in flags and files are usage errors.
func (o *accessFlags) options(log *slog.Logger, tokens *web.Tokens) (opts web.Options, err error) {
	opts = web.Options{Origins: o.origins, TrustProxy: o.trustProxy, Tokens: tokens, Logger: log}
	if o.tlsCert != "" {
		if opts.TLS, err = web.LoadTLS(o.tlsCert, o.tlsKey); err != nil {
			return opts, webFailure(err)
		}
	}
	return opts, nil
}

func webFailure(err error) error {
	if _, ok := errors.AsType[*web.OptionError](err); ok {
		return usage("--%w", err)
	}
	return err
}
