package web

import (
	"net/http"
	"net/url"
	"strings"
)

// pathMark is the word behind a token that may be the end of a path: for clients of an MCP
// endpoint that can send no header, such as those that only take a URL.
const pathMark = "path"

// inPath reports whether text is a secret that may be the end of a path.
func (t Token) inPath(text string) bool {
	d := digest(text)
	found := false
	for _, s := range t.secrets {
		found = s.is(d) && s.inPath || found
	}
	return found
}

// endpoint returns the request with a token that is the end of its path, as in
// /mcp/TOKEN, moved to the Authorization header, so that everything else treats it like
// other tokens and nobody sees it in a path. One that may not be there is replaced by a
// wrong one.
func (s *Server) endpoint(r *http.Request) *http.Request {
	const prefix = "/mcp/"
	text, ok := strings.CutPrefix(r.URL.Path, prefix)
	if !ok || !s.opts.MCP || !s.opts.Token.Set() {
		return r
	}
	if !s.opts.Token.inPath(text) {
		text = "-"
	}
	out := new(http.Request)
	*out = *r
	out.URL = &url.URL{Path: strings.TrimSuffix(prefix, "/"), RawQuery: r.URL.RawQuery}
	out.RequestURI = out.URL.RequestURI()
	out.Header = r.Header.Clone()
	out.Header.Set("Authorization", "Bearer "+text)
	return out
}
