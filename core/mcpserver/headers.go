package mcpserver

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/mcp"
)

const (
	typeJSON   = "application/json"
	typeEvents = eventstream.ContentType
)

// accepts reports whether the client accepts a media type. A client that sends no Accept
// header accepts all, as HTTP specifies.
func accepts(r *http.Request, mediaType string) bool {
	values := r.Header.Values("Accept")
	if len(values) == 0 {
		return true
	}
	kind, _, _ := strings.Cut(mediaType, "/")
	for one := range strings.SplitSeq(strings.Join(values, ","), ",") {
		t, params, err := mime.ParseMediaType(one)
		if err == nil && strings.Trim(params["q"], "0.") == "" && params["q"] != "" {
			continue // q=0 excludes it
		}
		if err == nil && (t == mediaType || t == kind+"/*" || t == "*/*") {
			return true
		}
	}
	return false
}

// principal returns Options.Principal of a request; by default a digest of its Authorization
// header, "" without one.
func (s *Server) principal(r *http.Request) string {
	if s.opts.Principal != nil {
		return s.opts.Principal(r)
	}
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return ""
	}
	mac := hmac.New(sha256.New, s.opts.Key)
	for _, v := range values {
		_, _ = mac.Write([]byte(v + "\n")) // never fails
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// single returns the value of a header, which may occur only once.
func single(r *http.Request, header string) (value string, ok bool) {
	values := r.Header.Values(header)
	if len(values) > 1 {
		return "", false
	}
	return r.Header.Get(header), true
}

// checkVersion compares the protocol version in the header with the one in _meta, if _meta
// has one: a proxy may have routed the request by the header.
func checkVersion(r *http.Request, m *message) *Error {
	switch value, ok := single(r, mcp.HeaderProtocolVersion); {
	case !ok:
		return mismatch(mcp.HeaderProtocolVersion, "occurs twice")
	case value == "":
		return mismatch(mcp.HeaderProtocolVersion, "is missing")
	case m.version() != "" && value != m.version():
		return mismatch(mcp.HeaderProtocolVersion, "does not match the version in _meta")
	}
	return nil
}

func mismatch(header, why string) *Error {
	return errorf(mcp.CodeHeaderMismatch, "header %s %s", header, why)
}

// checkHeaders compares the headers with the method and the name of a modern request with its
// body: a proxy may have routed or filtered the request by these headers.
func checkHeaders(r *http.Request, m *message) *Error {
	switch value, ok := single(r, mcp.HeaderMethod); {
	case !ok:
		return mismatch(mcp.HeaderMethod, "occurs twice")
	case value == "":
		return mismatch(mcp.HeaderMethod, "is missing")
	case value != m.method:
		return mismatch(mcp.HeaderMethod, "does not match the method")
	}
	param := ""
	switch m.method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt:
		param = "name"
	case mcp.MethodReadResource:
		param = "uri"
	case mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask:
		if r.Header.Get(mcp.HeaderName) == "" {
			return nil // it only helps proxies to route
		}
		param = "taskId"
	default:
		return nil
	}
	value, ok := single(r, mcp.HeaderName)
	if !ok {
		return mismatch(mcp.HeaderName, "occurs twice")
	}
	if value == "" {
		return mismatch(mcp.HeaderName, "is missing")
	}
	if value, ok = decodeHeader(value); !ok || value != text(m.fields[param]) {
		return mismatch(mcp.HeaderName, "does not match params."+param)
	}
	return nil
}

// decodeHeader decodes a value that a header cannot carry literally. A value that only
// begins like an encoded one is literal.
func decodeHeader(value string) (string, bool) {
	inner, ok := strings.CutPrefix(value, "=?base64?")
	if ok {
		inner, ok = strings.CutSuffix(inner, "?=")
	}
	if !ok {
		return value, true
	}
	b, err := base64.StdEncoding.DecodeString(inner)
	return string(b), err == nil
}

// isModern reports whether a POST is of the modern era: by its _meta, else by its headers and
// its method.
func isModern(r *http.Request, m *message) bool {
	if m.meta[mcp.MetaProtocolVersion] != nil {
		return true
	}
	version := r.Header.Get(mcp.HeaderProtocolVersion)
	if m.method == mcp.MethodInitialize || r.Header.Get(mcp.HeaderSession) != "" && version != mcp.ModernVersion {
		return false
	}
	return version != "" && !slices.Contains(mcp.Versions()[1:], version) || m.method == mcp.MethodDiscover || m.method == mcp.MethodListen
}
