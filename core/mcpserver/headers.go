package mcpserver

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/mcp"
)

const (
	typeJSON   = "application/json"
	typeEvents = eventstream.ContentType
)

// accepts reports whether the client accepts a media type. As HTTP specifies, a client without an
// Accept header accepts every type.
func accepts(r *http.Request, mediaType string) bool {
	values := r.Header.Values("Accept")
	if len(values) == 0 {
		return true
	}
	kind, _, _ := strings.Cut(mediaType, "/")
	for one := range strings.SplitSeq(strings.Join(values, ","), ",") {
		t, params, err := mime.ParseMediaType(one)
		if err == nil && strings.Trim(params["q"], "0.") == "" && params["q"] != "" {
			continue // q=0 excludes the type
		}
		if err == nil && (t == mediaType || t == kind+"/*" || t == "*/*") {
			return true
		}
	}
	return false
}

// principal returns the principal that sent a request, as determined by Options.Principal. By
// default it is a digest of the Authorization header, or empty without that header.
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
		_, _ = mac.Write([]byte(v + "\n")) // a hash never fails
	}
	return hex.EncodeToString(mac.Sum(nil)[:16])
}

// single returns the value of a header. ok is false if the header occurs more than once.
func single(r *http.Request, header string) (value string, ok bool) {
	values := r.Header.Values(header)
	if len(values) > 1 {
		return "", false
	}
	return r.Header.Get(header), true
}

// required returns the value of a header that must occur exactly once.
func required(r *http.Request, header string) (string, *Error) {
	value, ok := single(r, header)
	switch {
	case !ok:
		return "", mismatch(header, "occurs twice")
	case value == "":
		return "", mismatch(header, "is missing")
	}
	return value, nil
}

// checkVersion checks that the protocol version in the header equals the version in _meta, if there
// is one, because a proxy may have routed the request by the header.
func checkVersion(r *http.Request, m *message) *Error {
	value, failed := required(r, mcp.HeaderProtocolVersion)
	if failed == nil && m.version() != "" && value != m.version() {
		failed = mismatch(mcp.HeaderProtocolVersion, "does not match the version in _meta")
	}
	return failed
}

func mismatch(header, why string) *Error {
	return errorf(mcp.CodeHeaderMismatch, "header %s %s", header, why)
}

// checkHeaders checks that the Mcp-Method and Mcp-Name headers of a modern request match its body,
// because a proxy may have routed or filtered the request by these headers.
func checkHeaders(r *http.Request, m *message) *Error {
	value, failed := required(r, mcp.HeaderMethod)
	if failed == nil && value != m.method {
		failed = mismatch(mcp.HeaderMethod, "does not match the method")
	}
	if failed != nil {
		return failed
	}
	param := ""
	switch m.method {
	case mcp.MethodCallTool, mcp.MethodGetPrompt:
		param = "name"
	case mcp.MethodReadResource:
		param = "uri"
	case mcp.MethodGetTask, mcp.MethodUpdateTask, mcp.MethodCancelTask:
		if r.Header.Get(mcp.HeaderName) == "" {
			return nil // optional: the header only helps proxies to route
		}
		param = "taskId"
	default:
		return nil
	}
	if value, failed = required(r, mcp.HeaderName); failed != nil {
		return failed
	}
	value, ok := decodeHeader(value)
	if !ok || value != text(m.fields[param]) {
		return mismatch(mcp.HeaderName, "does not match params."+param)
	}
	return nil
}

// decodeHeader decodes a header value that may be encoded because headers cannot contain every
// character. An incomplete encoding is returned unchanged.
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

// isModern reports whether a POST belongs to the modern era, judging by its _meta, or otherwise by
// its headers and method.
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

// mirrored describes a tool argument that modern HTTP clients repeat in the header Mcp-Param-NAME
// because the tool's schema marks it with "x-mcp-header".
type mirrored struct {
	path   []string // path to the argument
	header string
}

const (
	mirrorKey   = "x-mcp-header"
	mirrorDepth = 32
)

// mirroredArguments returns the mirrored arguments of each tool, by tool name. Tools with invalid
// annotations are omitted, because clients ignore such tools.
func mirroredArguments(tools []json.RawMessage) map[string][]mirrored {
	var found map[string][]mirrored
	for _, tool := range tools {
		list, name, err := mirroredOf(tool)
		if err != nil || len(list) == 0 {
			continue
		}
		if found == nil {
			found = make(map[string][]mirrored)
		}
		found[name] = list
	}
	return found
}

// CheckTool returns an error if modern clients would reject a tool because of its "x-mcp-header"
// annotations. The error text is suitable for users.
func CheckTool(tool json.RawMessage) error {
	_, _, err := mirroredOf(tool)
	return err
}

func mirroredOf(tool json.RawMessage) (list []mirrored, name string, err error) {
	if !bytes.Contains(tool, []byte(mirrorKey)) {
		return nil, "", nil
	}
	fields, failed := object(tool)
	if failed != nil {
		return nil, "", nil
	}
	m := mirroring{seen: map[string]bool{}}
	err = m.add(fields["inputSchema"], nil)
	return m.list, text(fields["name"]), err
}

// mirroring collects the mirrored arguments of one tool.
type mirroring struct {
	list []mirrored
	seen map[string]bool // lower-case header names found so far
}

// add collects the mirrored arguments in the schema at path. It descends only into "properties",
// because clients look nowhere else.
func (m *mirroring) add(schema json.RawMessage, path []string) error {
	fields, failed := object(schema)
	if failed != nil || len(path) > mirrorDepth {
		return nil
	}
	if raw, there := fields[mirrorKey]; there && len(path) > 0 {
		header := text(raw)
		switch {
		case !isToken(header):
			return fmt.Errorf("its %s of %q is not a valid header name", mirrorKey, bounded(path[len(path)-1]))
		case !slices.Contains([]string{"string", "integer", "boolean"}, text(fields["type"])):
			return fmt.Errorf("its argument %q has %s, so its type must be string, integer or boolean", bounded(path[len(path)-1]), mirrorKey)
		case m.seen[strings.ToLower(header)]:
			return fmt.Errorf("it uses the %s %q twice", mirrorKey, header)
		}
		m.seen[strings.ToLower(header)] = true
		m.list = append(m.list, mirrored{path: slices.Clone(path), header: "Mcp-Param-" + header})
	}
	properties, failed := object(fields["properties"])
	if failed != nil {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if err := m.add(properties[name], append(path, name)); err != nil {
			return err
		}
	}
	return nil
}

// isToken reports whether s is a token (RFC 9110, section 5.6.2), the required form of header
// names.
func isToken(s string) bool {
	for _, c := range []byte(s) {
		if c|0x20 >= 'a' && c|0x20 <= 'z' || c >= '0' && c <= '9' || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0 {
			continue
		}
		return false
	}
	return s != ""
}

// checkMirrored checks that the Mcp-Param headers of a tool call match its arguments.
func (s *Server) checkMirrored(r *http.Request, m *message) *Error {
	for _, arg := range s.lists.mirrored(text(m.fields["name"])) {
		value := m.fields["arguments"]
		for _, name := range arg.path {
			fields, err := object(value)
			if err != nil {
				fields = nil
			}
			value = fields[name]
		}
		if len(value) == 0 || bytes.ContainsAny(value[:1], "n{[") {
			continue // absent, null, object or array: no header needed
		}
		got, ok := single(r, arg.header)
		if !ok || len(r.Header.Values(arg.header)) == 0 {
			return errorf(mcp.CodeHeaderMismatch, "header %s must occur exactly once because its argument is present", bounded(arg.header))
		}
		if got, ok = decodeHeader(got); !ok || !sameValue(value, got) {
			return errorf(mcp.CodeHeaderMismatch, "header %s does not match the argument", bounded(arg.header))
		}
	}
	return nil
}

// sameValue reports whether a JSON primitive equals the text in a header. Numbers are compared by
// value.
func sameValue(value json.RawMessage, header string) bool {
	if value[0] == '"' {
		return text(value) == header
	}
	if string(value) == header {
		return true
	}
	a, err1 := strconv.ParseFloat(string(value), 64)
	b, err2 := strconv.ParseFloat(header, 64)
	return err1 == nil && err2 == nil && a == b
}
