package cli

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/ipscope"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
	"github.com/mcptrack/mcptrack/output/remote"
)

// DefaultServeURL is the default address of serve-sse.
const DefaultServeURL = "http://127.0.0.1:8722"

// DefaultGatewayAddress is the default address of gateway.
const DefaultGatewayAddress = "127.0.0.1:8723"

// RemoteFlags contains the flags of commands that read from a running serve-sse.
type RemoteFlags struct {
	URL       string // value of --url or of the argument; may be empty
	tokenFile string
	insecure  bool
}

func (r *RemoteFlags) Add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&r.URL, "url", "", "`URL` or port of a running serve-sse")
	f.StringVar(&r.tokenFile, "token-file", "", "`FILE` with the token of the serve-sse (default $MCPTRACK_TOKEN)")
	f.BoolVar(&r.insecure, "insecure", false, "send the token over http to another machine")
	_ = f.MarkHidden("insecure") // the error message names it
	_ = cmd.MarkFlagFilename("token-file")
}

// TakeURL sets the URL to the command's argument, if there is one. Without an argument and --url it
// sets the URL to byDefault.
func (r *RemoteFlags) TakeURL(args []string, byDefault string) error {
	switch {
	case len(args) > 0 && r.URL != "":
		return UsageHint("remove one of them", "--url and the URL %s cannot be used together", printable.Line(args[0], 200))
	case len(args) > 0:
		r.URL = args[0]
	}
	r.URL = cmp.Or(r.URL, byDefault)
	return nil
}

// Named reports whether a flag or the argument selects the serve-sse.
func (r *RemoteFlags) Named() bool { return r.URL != "" || r.tokenFile != "" || r.insecure }

// Client returns a client for the serve-sse at the URL, which may be the URL of its feed.
func (r *RemoteFlags) Client(env *Env) (remote.Client, error) {
	return ServeClient(env, "URL", r.URL, "token-file", r.tokenFile, r.insecure)
}

// ServeClient returns a client for the serve-sse at an address, which may be the URL of its feed. what describes
// the address in errors. flag names the file with the token.
func ServeClient(env *Env, what, address, flag, file string, insecure bool) (remote.Client, error) {
	base, err := parseServeURL(what, address)
	if err != nil {
		return remote.Client{}, err
	}
	base.Path, base.RawPath = strings.TrimSuffix(strings.TrimSuffix(base.Path, "/"), "/events"), ""
	token, err := serveToken(env, base, flag, file, insecure)
	return remote.Client{Base: base, Token: token}, err
}

// parseServeURL parses the address of a serve-sse. what describes the address in errors.
func parseServeURL(what, text string) (*url.URL, error) {
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

// serveToken returns the token for the serve-sse at an address, from the file that a flag specifies
// or from MCPTRACK_TOKEN, or "" if there is none. Unless insecure is set, it returns an error
// instead of a token that would be sent unencrypted to another machine.
func serveToken(env *Env, to *url.URL, flag, file string, insecure bool) (string, error) {
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

// RemoteFailure adds an exit code and a hint to an error from a serve-sse. flag is the flag for its token file.
// Other errors are returned unchanged.
func RemoteFailure(ctx context.Context, err error, flag string) error {
	if unreachable, ok := errors.AsType[*remote.UnreachableError](err); ok {
		if ctx.Err() != nil && !errors.Is(context.Cause(ctx), ErrTimeout) {
			return err
		}
		f := &Failure{Exit: ExitUnreachable, Code: "unreachable", Err: unreachable, Hint: "is mcptrack serve-sse running there?"}
		if errors.Is(err, ErrTimeout) {
			f.Hint = "allow more time with --timeout"
		}
		return f
	}
	refused, ok := errors.AsType[*remote.RefusedError](err)
	if !ok {
		return err
	}
	f := &Failure{Exit: ExitRefused, Code: "refused", Err: refused, Hint: "check that it is the address of a serve-sse"}
	switch refused.Status {
	case http.StatusUnauthorized:
		f.Hint = "set MCPTRACK_TOKEN, or specify the token file with --" + flag
	case http.StatusConflict: // the error says why
		f.Hint = ""
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
