package inject

import (
	"cmp"
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/realtime"
)

// targetFlags contains the flags that select the destination of messages.
type targetFlags struct {
	dialect    string
	callID     string
	sessionID  string
	model      string
	url        string
	headers    []string
	authHeader string
	keyFile    string
	insecure   bool

	listen   string
	upstream string
	access   cli.AccessFlags

	endpoint realtime.Endpoint // set by parse
}

func (t *targetFlags) add(cmd *cobra.Command) {
	f := cmd.Flags()
	cli.AddChoice(cmd, &t.dialect, "dialect", "", "`NAME` of the endpoint's API: openai, gpt-live or elevenlabs", realtime.Dialects()...)
	f.StringVar(&t.callID, "call-id", "", "`ID` of a running WebRTC or SIP call")
	f.StringVar(&t.sessionID, "session-id", "", "`ID` of a GPT-Live session or ElevenLabs conversation")
	f.StringVar(&t.model, "model", "", "`NAME` of the model for a new session")
	f.StringVar(&t.url, "url", "", "`URL` of the endpoint (default "+realtime.DefaultURL+")")
	f.StringArrayVar(&t.headers, "header", nil, "`NAME=VALUE` of a header for the endpoint (repeatable)")
	f.StringVar(&t.authHeader, "auth-header", "", "`NAME` of the header with the key, such as api-key")
	_ = f.MarkHidden("header")
	_ = f.MarkHidden("auth-header") // see mcptrack help realtime
	f.StringVar(&t.keyFile, "api-key-file", "", "`FILE` (mode 0600) with the key")
	f.BoolVar(&t.insecure, "insecure", false, "allow a remote endpoint or feed without TLS")
	_ = f.MarkHidden("insecure") // the error message names it
	f.StringVar(&t.listen, "listen", "", "`ADDRESS` or port to which applications connect")
	f.StringVar(&t.upstream, "upstream", "", "`URL` of the endpoint behind --listen")
	t.access.Add(cmd, "applications", "connect to --listen")
	_ = cmd.MarkFlagFilename("api-key-file")
}

// api returns the dialect that the flags select.
func (t *targetFlags) api() realtime.Dialect {
	if t.dialect == "" && t.sessionID != "" {
		return realtime.GPTLive
	}
	return realtime.Dialect(t.dialect)
}

// checkDialect checks that the dialect supports the given flags.
func (t *targetFlags) checkDialect() error {
	if err := cli.OneOf("dialect", t.dialect, realtime.Dialects()...); err != nil && t.dialect != "" {
		return err
	}
	api := t.api()
	other := api != "" && api != realtime.OpenAI
	switch {
	case !other && t.sessionID != "":
		return cli.Usage("--session-id requires --dialect gpt-live or elevenlabs; use --call-id for a running call of the Realtime API")
	case other && (t.callID != "" || t.model != ""):
		return cli.Usage("--call-id and --model are not available with --dialect %s; use --session-id", api)
	}
	return nil
}

func (t *targetFlags) parse(env *cli.Env) error {
	if err := t.checkDialect(); err != nil {
		return err
	}
	sessions := slices.DeleteFunc([]string{t.callID, t.sessionID, t.model}, func(id string) bool { return id == "" })
	switch {
	case (t.listen == "") != (t.upstream == ""):
		return cli.Usage("--listen and --upstream must be used together")
	case t.listen != "" && len(sessions)+len(t.url) > 0:
		return cli.Usage("with --listen, the applications choose the session; omit --call-id, --session-id, --model and --url")
	case len(sessions) > 1:
		return cli.Usage("specify only one of --call-id, --session-id and --model")
	case t.listen == "" && len(sessions)+len(t.url) == 0:
		return cli.UsageHint("to try it, use --dry-run; to join all sessions of an application, use --listen and --upstream", "no session given; use --call-id, --session-id, --model or --listen")
	case t.listen == "" && t.access.Set():
		return cli.Usage("--token-file, --allow-origin, --tls-cert, --tls-key and --trust-proxy require --listen")
	}
	if err := t.access.Check(); err != nil {
		return err
	}
	t.endpoint = realtime.Endpoint{URL: t.url + t.upstream, Insecure: t.insecure, Dialect: t.api(), Session: t.sessionID, Query: url.Values{}, Header: http.Header{}}
	if err := t.members(); err != nil {
		return err
	}
	if err := t.endpoint.Check(); err != nil {
		return t.targetFailure(err)
	}
	return t.authorize(env)
}

// members sets the query that selects the session, and the values of --header.
func (t *targetFlags) members() error {
	if t.callID != "" {
		t.endpoint.Query.Set("call_id", t.callID)
	}
	if t.model != "" {
		t.endpoint.Query.Set("model", t.model)
	}
	variable, _ := t.endpoint.Dialect.Key()
	headers, err := cli.Pairs("header", t.headers)
	if err != nil {
		return err
	}
	for name, value := range headers {
		switch textproto.CanonicalMIMEHeaderKey(name) {
		case "Authorization", "Api-Key", "X-Api-Key", "Xi-Api-Key", textproto.CanonicalMIMEHeaderKey(t.authHeader):
			return cli.UsageHint("put the key into "+variable+" or --api-key-file, and specify its header with --auth-header",
				"--header %s would show the key to everyone who lists processes", printable.Line(name, 60))
		}
		t.endpoint.Header.Set(name, value)
	}
	return nil
}

// authorize adds the API key to the handshake. With --listen it does so only if applications must
// present a token.
func (t *targetFlags) authorize(env *cli.Env) error {
	if t.listen != "" && t.access.TokenFile == "" {
		if t.keyFile != "" {
			return cli.UsageHint("add --token-file", "with --api-key-file every program on this machine could use the key through --listen")
		}
		return nil
	}
	variable, header := t.endpoint.Dialect.Key()
	header = cmp.Or(t.authHeader, header)
	key := strings.TrimSpace(env.Getenv(variable))
	if t.keyFile != "" {
		var err error
		if key, err = cli.ReadSecret("api-key-file", t.keyFile); err != nil {
			return err
		}
	}
	if t.listen != "" {
		// The endpoint must not receive the proxy's token or its login cookie.
		t.endpoint.Header["Authorization"], t.endpoint.Header["Cookie"] = nil, nil
	}
	if key == "" {
		if t.endpoint.URL == "" || strings.HasPrefix(t.endpoint.Address(), "wss://api.openai.com/") {
			return cli.UsageHint("set "+variable+", or use --api-key-file", "no key for %s", t.endpoint.Address())
		}
		return nil
	}
	if textproto.CanonicalMIMEHeaderKey(header) == "Authorization" {
		key = "Bearer " + key
	}
	t.endpoint.Header.Set(header, key)
	if err := t.endpoint.Check(); err != nil {
		return t.targetFailure(err)
	}
	return nil
}

// targetFailure converts an error for an invalid option into a usage error for its flag.
func (t *targetFlags) targetFailure(err error) error {
	o, ok := errors.AsType[*realtime.OptionError](err)
	if !ok {
		return err
	}
	if o.Option == "url" && t.listen != "" {
		return cli.Usage("--upstream: %s", o.Reason)
	}
	return cli.Usage("--%w", err)
}
