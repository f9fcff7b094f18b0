package commands

import (
	"errors"
	"net/http"
	"net/textproto"
	"net/url"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/output/realtime"
)

// injectTarget is where messages go.
type injectTarget struct {
	callID     string
	model      string
	url        string
	headers    []string
	queries    []string
	authHeader string
	keyFile    string
	insecure   bool

	listen    string
	upstream  string
	tokenFile string
	origins   []string

	endpoint realtime.Endpoint // what all that says; set by check
}

func (t *injectTarget) add(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&t.callID, "call-id", "", "`ID` of a running WebRTC or SIP call (rtc_…)")
	f.StringVar(&t.model, "model", "", "`NAME` of the model for a session of its own")
	f.StringVar(&t.url, "url", "", "`URL` of the endpoint (default "+realtime.DefaultURL+")")
	f.StringArrayVar(&t.headers, "header", nil, "`NAME=VALUE` of a header for the endpoint, no secret (repeatable)")
	f.StringArrayVar(&t.queries, "query", nil, "`NAME=VALUE` for the URL's query, no secret (repeatable)")
	f.StringVar(&t.authHeader, "auth-header", "Authorization", "`NAME` of the header with the key, such as api-key")
	f.StringVar(&t.keyFile, "api-key-file", "", "`FILE` (mode 0600) with the key, instead of OPENAI_API_KEY")
	f.BoolVar(&t.insecure, "insecure", false, "allow an endpoint or a feed elsewhere that is not encrypted")
	f.StringVar(&t.listen, "listen", "", "`ADDRESS` to take applications on, such as 127.0.0.1:8787; port 0 picks one")
	f.StringVar(&t.upstream, "upstream", "", "`URL` to pass them on to")
	f.StringVar(&t.tokenFile, "token-file", "", "`FILE` (mode 0600) with the token that applications must present to --listen")
	f.StringArrayVar(&t.origins, "allow-origin", nil, "`ORIGIN` of a site whose pages may connect to --listen (repeatable)")
	for _, name := range []string{"api-key-file", "token-file"} {
		_ = cmd.MarkFlagFilename(name)
	}
}

// checkUnused checks a target that nothing will be sent to.
func (t *injectTarget) checkUnused() error {
	if t.listen != "" {
		return usage("--dry-run connects to nothing, and nothing to it: leave out --listen")
	}
	return nil
}

func (t *injectTarget) check(env *Env) error {
	switch {
	case (t.listen == "") != (t.upstream == ""):
		return usage("--listen and --upstream belong together")
	case t.listen != "" && (t.callID != "" || t.model != "" || t.url != ""):
		return usage("with --listen applications say which session they want: leave out --call-id, --model and --url")
	case t.callID != "" && t.model != "":
		return usage("--call-id and --model exclude each other: a running call, or a session of its own")
	case t.listen == "" && t.callID == "" && t.model == "" && t.url == "":
		return usageHint("for example --call-id rtc_…, --model gpt-realtime, or --listen ADDRESS --upstream URL; or --dry-run", "into which session?")
	case t.listen == "" && (t.tokenFile != "" || len(t.origins) > 0):
		return usage("--token-file and --allow-origin are for --listen")
	}
	t.endpoint = realtime.Endpoint{URL: t.url + t.upstream, Insecure: t.insecure, Query: url.Values{}, Header: http.Header{}}
	if err := t.members(); err != nil {
		return err
	}
	if err := t.endpoint.Check(); err != nil {
		return t.targetFailure(err)
	}
	return t.authorize(env)
}

// members reads --query and --header.
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
	if t.listen != "" && t.tokenFile == "" {
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
			return usageHint("set OPENAI_API_KEY, or name a file with --api-key-file", "there is no key for %s", t.endpoint.Address())
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

// targetFailure makes an option that is refused wrong usage of its flag.
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
