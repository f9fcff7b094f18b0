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
	f.StringVar(&o.tokenFile, "token-file", "", "`FILE` (mode 0600) with the token that "+clients+" must present")
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

// token reads the file of the token; without one it is not set.
func (o *accessFlags) token() (web.Token, error) {
	if o.tokenFile == "" {
		return web.Token{}, nil
	}
	t, err := web.LoadToken(o.tokenFile)
	if err != nil {
		return t, webFailure(err)
	}
	return t, nil
}

// options reads the files. Errors in flags and files are usage errors.
func (o *accessFlags) options(log *slog.Logger) (opts web.Options, err error) {
	opts = web.Options{Origins: o.origins, TrustProxy: o.trustProxy, Logger: log}
	if opts.Token, err = o.token(); err != nil {
		return opts, err
	}
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
