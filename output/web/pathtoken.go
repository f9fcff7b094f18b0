package web

import (
	"net/http"
	"net/url"
	"strings"
)

// pathMark is the word that follows a token in the token file if the token may also be the end
// of the path of an MCP endpoint: for clients that can send no header.
const pathMark = "path"

// endpoint moves a token at the end of the path, as in /mcp/TOKEN, to the Authorization
// header, so that it is checked like other tokens and appears in no path that is logged. A token
// that may not be in a path is replaced by a wrong one. Other requests are returned unchanged.
func (s *Server) endpoint(r *http.Request) *http.Request {
	const prefix = "/mcp/"
	text, ok := strings.CutPrefix(r.URL.Path, prefix)
	if !ok || !s.opts.MCP || !s.opts.Tokens.Set() {
		return r
	}
	if !s.opts.Tokens.current().find(digest(text)).inPath {
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
