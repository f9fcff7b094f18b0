package sessiontest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// message is any JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// rpcError is a JSON-RPC error object.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// answer computes the answer to a request other than a listen.
func (s *Fake) answer(p *peer, m message) map[string]any {
	result, err := s.dispatch(p, m)
	if err != nil {
		return map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": err}
	}
	return map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result}
}

func (f *Fault) reply(m message) (map[string]any, bool) {
	switch {
	case f.Error != nil:
		return map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": f.Error}, true
	case f.Code != 0:
		return map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": rpcError{f.Code, f.Message, f.Data}}, true
	case f.Result != nil:
		return map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": f.Result}, true
	}
	return nil, false
}

func (s *Fake) dispatch(p *peer, m message) (any, *rpcError) {
	var q struct {
		Meta            map[string]any `json:"_meta"`
		URI             string         `json:"uri"`
		Name            string         `json:"name"`
		Cursor          *string        `json:"cursor"`
		ProtocolVersion string         `json:"protocolVersion"`
		Capabilities    map[string]any `json:"capabilities"`
		Arguments       any            `json:"arguments"`
	}
	_ = json.Unmarshal(m.Params, &q)
	version, _ := q.Meta["io.modelcontextprotocol/protocolVersion"].(string)
	if version != "" && !s.Modern {
		return nil, &rpcError{-32601, "method not found", nil}
	}
	if version == "" && !s.Legacy {
		return nil, &rpcError{-32022, "unsupported protocol version",
			map[string]any{"supported": []string{mcp.ModernVersion}, "requested": q.ProtocolVersion}}
	}
	modern := version != ""
	info := map[string]any{"name": s.Name, "version": "1"}
	switch m.Method {
	case "initialize":
		s.accept(p, canBeAsked(q.Capabilities))
		return map[string]any{"protocolVersion": mcp.LatestLegacy, "capabilities": s.Capabilities, "serverInfo": info, "instructions": s.Instructions}, nil
	case "server/discover":
		if !modern {
			break
		}
		versions := []string{mcp.ModernVersion}
		if s.NamesLegacy {
			versions = append(versions, mcp.LatestLegacy)
		}
		return map[string]any{"resultType": "complete", "supportedVersions": versions, "capabilities": s.Capabilities, "instructions": s.Instructions,
			"ttlMs": 0, "cacheScope": "public", "_meta": map[string]any{"io.modelcontextprotocol/serverInfo": info}}, nil
	case "ping":
		if !modern {
			return map[string]any{}, nil
		}
	case "resources/subscribe", "resources/unsubscribe":
		if modern {
			break
		}
		s.follow(p, q.URI, m.Method == "resources/subscribe")
		return map[string]any{}, nil
	case "resources/read":
		r, ok := s.resource(q.URI)
		if !ok {
			if modern {
				return nil, &rpcError{-32602, "resource not found", map[string]any{"uri": q.URI}}
			}
			return nil, &rpcError{-32002, "resource not found", map[string]any{"uri": q.URI}}
		}
		entry := map[string]any{"uri": q.URI, "mimeType": r.MimeType, "text": r.Text}
		if r.Blob != nil {
			delete(entry, "text")
			entry["blob"] = base64.StdEncoding.EncodeToString(r.Blob)
		}
		return s.cacheable(modern, map[string]any{"contents": []any{entry}}), nil
	case "tools/call":
		return map[string]any{"content": []any{map[string]any{"type": "text", "text": fmt.Sprint(q.Name, " ", q.Arguments)}}}, nil
	case "prompts/get":
		return map[string]any{"messages": []any{}, "description": q.Name}, nil
	}
	for _, k := range catalog.Kinds() {
		if k.Method() == m.Method {
			capable := s.isCapable(p)
			if modern {
				declared, _ := q.Meta["io.modelcontextprotocol/clientCapabilities"].(map[string]any)
				capable = canBeAsked(declared)
			}
			return s.page(s.world.list(k, capable), k, q.Cursor, modern)
		}
	}
	return nil, &rpcError{-32601, "method not found", nil}
}

// canBeAsked reports whether a client with these capabilities can be asked something.
func canBeAsked(capabilities map[string]any) bool {
	return capabilities["sampling"] != nil || capabilities["elicitation"] != nil || capabilities["roots"] != nil
}

func (s *Fake) cacheable(modern bool, result map[string]any) map[string]any {
	if modern {
		result["resultType"], result["ttlMs"], result["cacheScope"] = "complete", 3600_000, "public"
	}
	return result
}

// page answers a request for a list. Cursors are page numbers; "" may stand for page 2.
func (s *Fake) page(items []json.RawMessage, k catalog.Kind, cursor *string, modern bool) (any, *rpcError) {
	size := s.PageSize
	if size <= 0 {
		size = max(len(items), 1)
	}
	n := s.pageOf(cursor)
	if n < 1 {
		return nil, &rpcError{-32602, "invalid cursor", nil}
	}
	from := min((n-1)*size, len(items))
	to := min(from+size, len(items))
	result := s.cacheable(modern, map[string]any{k.Field(): items[from:to]})
	switch {
	case s.RepeatedCursor:
		result["nextCursor"] = "again"
	case s.EndlessPages || to < len(items):
		result["nextCursor"] = strconv.Itoa(n + 1)
		if s.EmptyCursor && n == 1 {
			result["nextCursor"] = ""
		}
	}
	return result, nil
}

func (s *Fake) pageOf(cursor *string) int {
	switch {
	case cursor == nil:
		return 1
	case *cursor == "" && s.EmptyCursor, *cursor == "again":
		return 2
	}
	n, _ := strconv.Atoi(*cursor)
	return n
}

// startListen registers a listen, acknowledges it and returns it; or an error.
func (s *Fake) startListen(p *peer, m message) (*listen, *rpcError) {
	var q struct {
		Notifications filter `json:"notifications"`
	}
	if err := json.Unmarshal(m.Params, &q); err != nil {
		return nil, &rpcError{-32602, err.Error(), nil}
	}
	a := s.acknowledgement()
	for _, bad := range a.Reject {
		if slices.Contains(q.Notifications.URIs, bad) {
			if a.Name {
				return nil, &rpcError{-32602, "forbidden: " + bad, nil}
			}
			return nil, &rpcError{-32602, "forbidden", nil}
		}
	}
	f := q.Notifications
	f.URIs = slices.DeleteFunc(f.URIs, func(u string) bool { return slices.Contains(a.Hide, u) })
	f.Tools = f.Tools && !a.NoTools
	f = f.withSet()
	heard := f
	if a.Deaf {
		heard = filter{}
	}
	l := s.listen(p, m.ID, heard)
	tag := map[string]any{"io.modelcontextprotocol/subscriptionId": m.ID}
	if a.Early && len(f.URIs) > 0 {
		p.send(map[string]any{"jsonrpc": "2.0", "method": "notifications/resources/updated",
			"params": map[string]any{"uri": f.URIs[0], "_meta": tag}})
	}
	if !a.Never {
		s.acknowledge(p, l, map[string]any{"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged",
			"params": map[string]any{"notifications": f, "_meta": tag}})
	}
	if a.EndAfter || !a.Never && f.empty() {
		s.endListen(p, m.ID, true)
	}
	return l, nil
}

func completed(m message) map[string]any {
	return map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": map[string]any{"resultType": "complete",
		"_meta": map[string]any{"io.modelcontextprotocol/subscriptionId": m.ID}}}
}
