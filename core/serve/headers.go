package serve

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"mime"
	"net/http"
	"slices"
	"strings"
)

const (
	headerSession = "Mcp-Session-Id"
	headerVersion = "Mcp-Protocol-Version"
	headerMethod  = "Mcp-Method"
	headerName    = "Mcp-Name"

	typeJSON   = "application/json"
	typeEvents = "text/event-stream"
)

// accepts reports whether the client takes a media type. Without an Accept header
// it takes all, as HTTP has it.
func accepts(r *http.Request, mediaType string) bool {
	values := r.Header.Values("Accept")
	if len(values) == 0 {
		return true
	}
	kind, _, _ := strings.Cut(mediaType, "/")
	for one := range strings.SplitSeq(strings.Join(values, ","), ",") {
		t, params, err := mime.ParseMediaType(one)
		if err == nil && strings.Trim(params["q"], "0.") == "" && params["q"] != "" {
			continue // q=0: not that
		}
		if err == nil && (t == mediaType || t == kind+"/*" || t == "*/*") {
			return true
		}
	}
	return false
}

// principal is a digest of the credentials, with a key that is new in every
// process, so that it is of no use to anybody else.
func (s *Server) principal(r *http.Request) string {
	values := r.Header.Values("Authorization")
	if len(values) == 0 {
		return ""
	}
	mac := hmac.New(sha256.New, s.key)
	for _, v := range values {
		_, _ = mac.Write([]byte(v + "\n")) // never fails
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// single returns the value of a header that may come only once.
func single(r *http.Request, header string) (value string, ok bool) {
	values := r.Header.Values(header)
	if len(values) > 1 {
		return "", false
	}
	return r.Header.Get(header), true
}

// checkVersion holds the version in the header to the one in the body, if there
// is one: it may be why we were chosen to answer.
func checkVersion(r *http.Request, m *message) *Error {
	switch value, ok := single(r, headerVersion); {
	case !ok:
		return mismatch(headerVersion, "comes twice")
	case value == "":
		return mismatch(headerVersion, "is missing")
	case m.version() != "" && value != m.version():
		return mismatch(headerVersion, "does not match the version in _meta")
	}
	return nil
}

func mismatch(header, why string) *Error {
	return refuse(CodeHeaderMismatch, "header %s %s", header, why)
}

// checkHeaders holds the other headers of a modern request to its body: what is
// between us and the client may have decided by the headers.
func checkHeaders(r *http.Request, m *message) *Error {
	switch value, ok := single(r, headerMethod); {
	case !ok:
		return mismatch(headerMethod, "comes twice")
	case value == "":
		return mismatch(headerMethod, "is missing")
	case value != m.method:
		return mismatch(headerMethod, "does not match the method")
	}
	param := ""
	switch m.method {
	case methodCall, methodGetPrompt:
		param = "name"
	case methodRead:
		param = "uri"
	default:
		return nil
	}
	value, ok := single(r, headerName)
	if !ok {
		return mismatch(headerName, "comes twice")
	}
	if value == "" {
		return mismatch(headerName, "is missing")
	}
	if value, ok = decodeHeader(value); !ok || value != text(m.fields[param]) {
		return mismatch(headerName, "does not match params."+param)
	}
	return nil
}

// decodeHeader undoes the encoding of values that headers cannot carry.
func decodeHeader(value string) (string, bool) {
	inner, ok := strings.CutPrefix(value, "=?base64?")
	if !ok {
		return value, true
	}
	if inner, ok = strings.CutSuffix(inner, "?="); !ok {
		return "", false
	}
	b, err := base64.StdEncoding.DecodeString(inner)
	return string(b), err == nil
}

// isModern tells the era of a POST: by its _meta, else by its header, else by
// whether it belongs to a session.
func isModern(r *http.Request, m *message) bool {
	if m.meta[metaVersion] != nil {
		return true
	}
	version := r.Header.Get(headerVersion)
	if m.method == methodInitialize || r.Header.Get(headerSession) != "" && version != modernVersion {
		return false
	}
	return version != "" && !slices.Contains(supported()[1:], version) || m.method == methodDiscover || m.method == methodListen
}
