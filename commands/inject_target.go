package commands

import (
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/realtime"
)

// injectTarget is where messages go.
type injectTarget struct {
	callID     string
	sessionID  string
	model      string
	url        string
	headers    []string
	queries    []string
	authHeader string
	keyFile    string
	insecure   bool

	listen   string
	upstream string
	access   accessFlags

	endpoint realtime.Endpoint // set by parse
}

func (t *injectTarget) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.callID, "call-id", "", "`ID` of a running WebRTC or SIP call (rtc_…)")
	f.StringVar(&t.sessionID, "session-id", "", "`ID` of a running GPT-Live session (sess_…)")
	f.StringVar(&t.model, "model", "", "`NAME` of the model for a session of its own")
	f.StringVar(&t.url, "url", "", "`URL` of the endpoint (default "+realtime.DefaultURL+")")
	f.StringArrayVar(&t.headers, "header", nil, "`NAME=VALUE` of a header for the endpoint, not a secret (repeatable)")
	f.StringArrayVar(&t.queries, "query", nil, "`NAME=VALUE` for the query of the URL, not a secret (repeatable)")
	f.StringVar(&t.authHeader, "auth-header", "Authorization", "`NAME` of the header with the key, such as api-key")
	f.StringVar(&t.keyFile, "api-key-file", "", "`FILE` (mode 0600) with the key, instead of OPENAI_API_KEY")
	f.BoolVar(&t.insecure, "insecure", false, "allow a remote endpoint or feed without TLS")
	f.StringVar(&t.listen, "listen", "", "`ADDRESS` on which applications connect, such as 127.0.0.1:8787; port 0 picks one")
	f.StringVar(&t.upstream, "upstream", "", "`URL` of the endpoint of --listen")
	t.access.add(cmd, "applications", "connect to --listen")
	_ = cmd.MarkFlagFilename("api-key-file")
}

// checkUnused checks a target to which nothing will be sent.
func (t *injectTarget) checkUnused() error {
	if t.listen != "" {
		return usage("--dry-run and --listen exclude each other: a dry run has no connections")
	}
	return nil
}

func (t *injectTarget) parse(env *Env) error {
	switch {
	case (t.listen == "") != (t.upstream == ""):
		return usage("--listen and --upstream must be used together")
	case t.listen != "" && (t.callID != "" || t.sessionID != "" || t.model != "" || t.url != ""):
		return usage("with --listen applications say which session they want: leave out --call-id, --session-id, --model and --url")
	case len(nonEmpty(t.callID, t.sessionID, t.model)) > 1:
		return usage("--call-id, --session-id and --model exclude each other: a running call, a running GPT-Live session, or a session of its own")
	case t.listen == "" && t.callID == "" && t.sessionID == "" && t.model == "" && t.url == "":
		return usageHint("for example --model gpt-realtime, --listen ADDRESS --upstream URL, or --dry-run", "no session given; use --call-id, --session-id, --model or --listen")
	case t.listen == "" && t.access.set():
		return usage("--token-file, --allow-origin, --tls-cert, --tls-key and --trust-proxy are for --listen")
	}
	if err := t.access.check(); err != nil {
		return err
	}
	t.endpoint = realtime.Endpoint{URL: t.url + t.upstream, Insecure: t.insecure, LiveSession: t.sessionID, Query: url.Values{}, Header: http.Header{}}
	if err := t.members(); err != nil {
		return err
	}
	if err := t.endpoint.Check(); err != nil {
		return t.targetFailure(err)
	}
	return t.authorize(env)
}

// nonEmpty returns the values that are not empty.
func nonEmpty(values ...string) []string {
	return slices.DeleteFunc(values, func(v string) bool { return v == "" })
}

// members parses --query and --header.
func (t *injectTarget) members() error {
	query, err := pairs("query", t.queries)
	if err != nil {
		return err
	}
	for name, value := range query {
		t.endpoint.Query.Set(name, value)
	}
	if t.callID != "" {
		t.endpoint.Query.Set("call_id", t.callID)
	}
	if t.model != "" {
		t.endpoint.Query.Set("model", t.model)
	}
	headers, err := pairs("header", t.headers)
	if err != nil {
		return err
	}
	for name, value := range headers {
		switch textproto.CanonicalMIMEHeaderKey(name) {
		case "Authorization", "Api-Key", "X-Api-Key", textproto.CanonicalMIMEHeaderKey(t.authHeader):
			return usageHint("put the key into OPENAI_API_KEY or --api-key-file, and name its header with --auth-header",
				"--header %s would show the key to everybody who lists processes", printable.Line(name, 60))
		}
		t.endpoint.Header.Set(name, value)
	}
	return nil
}

// authorize adds the key to the handshake: always to our own, and to those of
// others when a token says who they are.
func (t *injectTarget) authorize(env *Env) error {
	if t.listen != "" && t.access.tokenFile == "" {
		if t.keyFile != "" {
			return usageHint("add --token-file", "with --api-key-file every program on this machine could use the key through --listen")
		}
		return nil
	}
	key := strings.TrimSpace(env.getenv("OPENAI_API_KEY"))
	if t.keyFile != "" {
		var err error
		if key, err = readSecret("api-key-file", t.keyFile); err != nil {
			return err
		}
	}
	if t.listen != "" {
		// The token is not for the endpoint, nor is the cookie of a login with it.
		t.endpoint.Header["Authorization"], t.endpoint.Header["Cookie"] = nil, nil
	}
	if key == "" {
		if t.endpoint.URL == "" || strings.HasPrefix(t.endpoint.Address(), "wss://api.openai.com/") {
			return usageHint("set OPENAI_API_KEY, or use --api-key-file", "no key for %s", t.endpoint.Address())
		}
		return nil
	}
	if textproto.CanonicalMIMEHeaderKey(t.authHeader) == "Authorization" {
		key = "Bearer " + key
	}
	t.endpoint.Header.Set(t.authHeader, key)
	if err := t.endpoint.Check(); err != nil {
		return t.targetFailure(err)
	}
	return nil
}

// targetFailure turns an invalid option into a usage error of its flag.
func (t *injectTarget) targetFailure(err error) error {
	o, ok := errors.AsType[*realtime.OptionError](err)
	if !ok {
		return err
	}
	if o.Option == "url" && t.listen != "" {
		return usage("--upstream: %s", o.Reason)
	}
	return usage("--%w", err)
}
