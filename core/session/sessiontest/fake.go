// Package sessiontest provides a scriptable fake MCP server for tests. The server supports both
// protocol eras over newline-delimited JSON on any reader and writer (including io.Pipe in a
// synctest bubble), over Streamable HTTP and over the old SSE transport. It uses no SDK, so that a
// test can make it violate the protocol in any way.
//
// A Fake is safe for concurrent use. It logs the messages that clients sent and the changes that
// really happened, so that tests can compare them with the changes that a tracker detected. Only
// tests import this package.
package sessiontest

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// Fake is a fake server: the resources and lists that it offers, its clients, and the faults to
// simulate. Create it with New, and modify the exported fields only before it is served.
type Fake struct {
	Legacy, Modern bool   // supported eras; New enables both
	NamesLegacy    bool   // server/discover also lists the legacy versions
	PageSize       int    // items per page; 0 returns all items on one page
	Name           string // serverInfo.name; New sets "fake"
	Capabilities   map[string]any
	Instructions   string
	TTL            int       // ttlMs of modern results; New sets an hour
	Events         EventFunc // answers the methods of MCP Events; nil if they are not offered

	NoGET          bool // HTTP: respond to GET with 405
	NoSession      bool // HTTP: assign no session id
	EmptyCursor    bool // the first nextCursor is an empty string
	RepeatedCursor bool // every page has the same nextCursor
	EndlessPages   bool // every page has a next page

	world
	clients
	faults
	received
}

// New returns a server that supports both eras and all capabilities.
func New() *Fake {
	list := map[string]any{"listChanged": true}
	return &Fake{
		Legacy: true, Modern: true, Name: "fake", TTL: 3600_000,
		Capabilities: map[string]any{"tools": list, "prompts": list,
			"resources": map[string]any{"listChanged": true, "subscribe": true}},
		world: world{resources: map[string]Resource{}, items: map[catalog.Kind]map[string]json.RawMessage{
			catalog.Tools: {}, catalog.Prompts: {}, catalog.Templates: {}, catalog.Skills: {}}, capable: map[catalog.Kind]map[string]json.RawMessage{}},
		clients: clients{peers: map[*peer]struct{}{}, sessions: map[string]*peer{}},
	}
}

// Set changes the text of a resource and notifies clients of the update, or of the changed list if
// the resource is new.
func (s *Fake) Set(uri, text string) {
	if s.SetQuietly(uri, text) {
		s.NotifyListChanged(catalog.Resources)
		return
	}
	s.NotifyUpdated(uri)
}

// Remove removes a resource and notifies clients of the changed list.
func (s *Fake) Remove(uri string) {
	s.RemoveQuietly(uri)
	s.NotifyListChanged(catalog.Resources)
}

// Heal removes all faults.
func (s *Fake) Heal() {
	s.faults.clear()
	s.Mute(false)
}

// message is any JSON-RPC message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

func (m message) answered(result any) map[string]any {
	return map[string]any{"jsonrpc": "2.0", "id": m.ID, "result": result}
}

func (m message) failed(err any) map[string]any {
	return map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": err}
}

// rpcError is a JSON-RPC error object.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

// answer returns the response to a request other than a listen.
func (s *Fake) answer(p *peer, m message) map[string]any {
	result, err := s.dispatch(p, m)
	if err != nil {
		return m.failed(err)
	}
	return m.answered(result)
}

func (f *Fault) reply(m message) (map[string]any, bool) {
	switch {
	case f.Error != nil:
		return m.failed(f.Error), true
	case f.Code != 0:
		return m.failed(rpcError{f.Code, f.Message, f.Data}), true
	case f.Result != nil:
		return m.answered(f.Result), true
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
	case "skills/get":
		for _, raw := range s.world.list(catalog.Skills, false) {
			if it, err := catalog.NewItem(catalog.Skills, raw); err == nil && it.Key == q.URI {
				return s.cacheable(modern, map[string]any{"skill": raw}), nil
			}
		}
		return nil, &rpcError{-32602, "no such skill", nil}
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

// canBeAsked reports whether a client with these capabilities answers requests from the server.
func canBeAsked(capabilities map[string]any) bool {
	return capabilities["sampling"] != nil || capabilities["elicitation"] != nil || capabilities["roots"] != nil
}

func (s *Fake) cacheable(modern bool, result map[string]any) map[string]any {
	if modern {
		result["resultType"], result["ttlMs"], result["cacheScope"] = "complete", s.TTL, "public"
	}
	return result
}

// page answers a list request. Cursors are page numbers; an empty cursor may refer to page 2.
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

// startListen registers and acknowledges a listen and returns it, or returns an error.
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
	if !a.Never && f.empty() {
		s.endListen(p, m.ID, true)
	}
	return l, nil
}

func completed(m message) map[string]any {
	return m.answered(map[string]any{"resultType": "complete", "_meta": map[string]any{"io.modelcontextprotocol/subscriptionId": m.ID}})
}

// Message is one message that a client sent.
type Message struct {
	Time   time.Time
	Method string // empty for a response
	ID     json.RawMessage
	Params json.RawMessage
	Raw    json.RawMessage
	Header map[string]string // HTTP headers that tests examine
}

// received is the log of the messages that clients sent.
type received struct {
	mu   sync.Mutex
	wire []Message
}

// Wire returns the messages that clients sent, in order.
func (r *received) Wire() []Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.wire)
}

// Count returns how many requests or notifications with this method were received.
func (r *received) Count(method string) int {
	n := 0
	for _, m := range r.Wire() {
		if m.Method == method {
			n++
		}
	}
	return n
}

func (r *received) log(m message, raw []byte, header map[string]string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wire = append(r.wire, Message{Time: time.Now(), Method: m.Method, ID: m.ID, Params: m.Params, Raw: raw, Header: header})
}

// Fault specifies how certain requests fail. If several faults match a request, the first one
// applies.
type Fault struct {
	Method string // empty for every request
	URI    string // only requests with this params.uri; empty for any URI
	Page   int    // only this page of a list, counted from 1; 0 for any page
	Times  int    // how many times the fault applies; 0 for no limit

	Silent  bool          // never respond
	Dies    bool          // on stdio: end the connection
	Stuck   bool          // on stdio: respond neither to this request nor to any later one of the connection
	Delay   time.Duration // respond later; the response is correct unless other fields are set
	Old     bool          // with Delay, on stdio: send the response as computed before the delay
	Code    int           // code of the JSON-RPC error
	Message string
	Data    any
	Error   json.RawMessage // sent unchanged as the member "error"

	Status int               // HTTP status of the response
	Header map[string]string // HTTP headers of the response
	Body   string            // HTTP body instead of JSON-RPC

	Result any // replaces the correct result
}

// AckFault specifies how the acknowledgements of listens are wrong.
type AckFault struct {
	Never   bool     // send no acknowledgement
	Hide    []string // URIs to omit from the acknowledgement
	NoTools bool
	Reject  []string // URIs that make the server reject the whole listen
	Name    bool     // the rejection mentions the URI
	Early   bool     // send an update before the acknowledgement
	Deaf    bool     // send nothing after the acknowledgement
}

// faults contains the faults to simulate.
type faults struct {
	mu   sync.Mutex
	list []*Fault
	ack  AckFault
}

// Fail adds a fault.
func (f *faults) Fail(next Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, &next)
}

// FailAck sets the fault for all later acknowledgements.
func (f *faults) FailAck(ack AckFault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ack = ack
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list, f.ack = nil, AckFault{}
}

func (f *faults) acknowledgement() AckFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ack
}

// fault returns the fault for a request, or nil if none applies.
func (s *Fake) fault(method string, params json.RawMessage) *Fault {
	var p struct {
		URI    string  `json:"uri"`
		Cursor *string `json:"cursor"`
	}
	_ = json.Unmarshal(params, &p)
	return s.take(method, p.URI, s.pageOf(p.Cursor))
}

// take returns the first matching fault and counts its use.
func (f *faults) take(method, uri string, page int) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, one := range f.list {
		if one.Method != "" && one.Method != method || one.URI != "" && one.URI != uri || one.Page > 0 && one.Page != page {
			continue
		}
		hit := *one
		if one.Times > 0 {
			if one.Times--; one.Times == 0 {
				f.list = slices.Delete(f.list, i, i+1)
			}
		}
		return &hit
	}
	return nil
}
