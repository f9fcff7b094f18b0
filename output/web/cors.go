package web

import (
	"net/http"
	"strings"
)

// CORS headers for MCP's Streamable HTTP transport.
const (
	mcpMethods = "GET, POST, DELETE"
	mcpHeaders = "Authorization, Content-Type, Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version, Mcp-Method, Mcp-Name"
	mcpExposed = "Last-Event-ID, Mcp-Session-Id, Mcp-Protocol-Version"

	// mcpParam is the prefix of headers that repeat arguments of a tool. Tools choose
	// the names, so all requested ones are allowed, up to maxParams.
	mcpParam  = "mcp-param-"
	maxParams = 64
)

// allow sets the CORS headers for a page of the origin other; mcp says that an MCP endpoint is
// served. preflight reports whether the request is a CORS preflight, which is answered with
// these headers alone.
func allow(h http.Header, r *http.Request, other string, mcp bool) (preflight bool) {
	h.Set("Access-Control-Allow-Origin", other)
	methods, headers, exposed := "GET", "Authorization, Last-Event-ID", "Last-Event-ID"
	if mcp {
		methods, headers, exposed = mcpMethods, mcpHeaders, mcpExposed
	}
	h.Set("Access-Control-Expose-Headers", exposed)
	// A preflight never carries credentials.
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	if mcp {
		headers += params(r.Header.Values("Access-Control-Request-Headers"))
		h.Add("Vary", "Access-Control-Request-Headers")
	}
	h.Set("Access-Control-Allow-Methods", methods)
	h.Set("Access-Control-Allow-Headers", headers)
	h.Set("Access-Control-Max-Age", "600")
	return true
}

// params returns the requested headers with prefix mcpParam, each after a comma.
func params(asked []string) string {
	var b strings.Builder
	n := 0
	for name := range strings.SplitSeq(strings.Join(asked, ","), ",") {
		name = strings.ToLower(strings.Trim(name, " \t"))
		if rest, ok := strings.CutPrefix(name, mcpParam); !ok || rest == "" || !token(rest) {
			continue
		}
		if n++; n > maxParams {
			break
		}
		b.WriteString(", " + name)
	}
	return b.String()
}

// token reports whether a lower-case string is a valid header name (RFC 9110, 5.6.2).
func token(s string) bool {
	return strings.Trim(s, "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz") == ""
}
