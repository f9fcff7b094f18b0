package serve

import (
	"encoding/json"
	"slices"

	"github.com/mcptrack/mcptrack/core/subscriptions"
)

// Methods of requests and notifications; see the schemas of the specification.
const (
	methodInitialize  = "initialize"
	methodInitialized = "notifications/initialized"
	methodPing        = "ping"
	methodDiscover    = "server/discover"
	methodTools       = "tools/list"
	methodCall        = "tools/call"
	methodPrompts     = "prompts/list"
	methodGetPrompt   = "prompts/get"
	methodResources   = "resources/list"
	methodTemplates   = "resources/templates/list"
	methodRead        = "resources/read"
	methodSubscribe   = "resources/subscribe"
	methodUnsubscribe = "resources/unsubscribe"
	methodComplete    = "completion/complete"
	methodListen      = "subscriptions/listen"

	noteCancelled    = "notifications/cancelled"
	noteAcknowledged = "notifications/subscriptions/acknowledged"
	noteUpdated      = "notifications/resources/updated"
	noteTools        = "notifications/tools/list_changed"
	notePrompts      = "notifications/prompts/list_changed"
	noteResources    = "notifications/resources/list_changed"
)

// Members of _meta that belong to the connection.
const (
	metaVersion      = "io.modelcontextprotocol/protocolVersion"
	metaClient       = "io.modelcontextprotocol/clientInfo"
	metaAbilities    = "io.modelcontextprotocol/clientCapabilities"
	metaServer       = "io.modelcontextprotocol/serverInfo"
	metaSubscription = "io.modelcontextprotocol/subscriptionId"
)

const (
	modernVersion = "2026-07-28"
	latestLegacy  = "2025-11-25"
)

// supported are all protocol versions, the newest first.
func supported() []string {
	return []string{modernVersion, latestLegacy, "2025-06-18", "2025-03-26", "2024-11-05"}
}

func isLegacy(version string) bool {
	return version != modernVersion && slices.Contains(supported(), version)
}

// offers reports whether a method exists in an era, given what the options have.
func (s *Server) offers(method string, modern bool) bool {
	switch method {
	case methodTools, methodCall:
		return s.opts.CallTool != nil
	case methodPrompts, methodGetPrompt:
		return s.opts.GetPrompt != nil
	case methodResources, methodTemplates, methodRead:
		return s.opts.ReadResource != nil
	case methodSubscribe, methodUnsubscribe:
		return s.opts.ReadResource != nil && !modern
	case methodComplete:
		return s.opts.Complete != nil
	case methodInitialize, methodPing:
		return !modern
	case methodDiscover, methodListen:
		return modern
	}
	return false
}

// capabilities are what the options make possible.
func (s *Server) capabilities() map[string]any {
	caps := map[string]any{}
	if s.opts.CallTool != nil {
		caps["tools"] = map[string]bool{"listChanged": true}
	}
	if s.opts.GetPrompt != nil {
		caps["prompts"] = map[string]bool{"listChanged": true}
	}
	if s.opts.ReadResource != nil {
		caps["resources"] = map[string]bool{"listChanged": true, "subscribe": true}
	}
	if s.opts.Complete != nil {
		caps["completions"] = struct{}{}
	}
	return caps
}

// listsOffered are the lists that a client can hear of.
func (s *Server) listsOffered() subscriptions.Lists {
	return subscriptions.Lists{
		Tools:     s.opts.CallTool != nil,
		Prompts:   s.opts.GetPrompt != nil,
		Resources: s.opts.ReadResource != nil,
	}
}

// info is the server as it introduces itself.
type info struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

func (s *Server) info() info { return info{s.opts.Name, s.opts.Title, s.opts.Version} }

// initialized is the result of initialize, with the version that is spoken then:
// the client's if we know it, else our newest of that era.
func (s *Server) initialized(m *message) (version string, result json.RawMessage, err *Error) {
	version = text(m.fields["protocolVersion"])
	if version == "" {
		return "", nil, refuse(CodeInvalidParams, `initialize: "protocolVersion" must be a string`)
	}
	if !isLegacy(version) {
		version = latestLegacy
	}
	return version, encode(struct {
		Version      string         `json:"protocolVersion"`
		Capabilities map[string]any `json:"capabilities"`
		Info         info           `json:"serverInfo"`
		Instructions string         `json:"instructions,omitempty"`
	}{version, s.capabilities(), s.info(), s.opts.Instructions}), nil
}

// discovered is the result of server/discover. It names the versions that can be
// used without initialize; the others are told in refusals.
func (s *Server) discovered() json.RawMessage {
	return encode(struct {
		Versions     []string       `json:"supportedVersions"`
		Capabilities map[string]any `json:"capabilities"`
		Instructions string         `json:"instructions,omitempty"`
	}{[]string{modernVersion}, s.capabilities(), s.opts.Instructions})
}

// checkMeta refuses a modern request whose _meta is not that of our version.
func checkMeta(m *message) *Error {
	version := m.version()
	switch {
	case m.meta[metaVersion] == nil:
		return refuse(CodeInvalidParams, "params._meta lacks %q", metaVersion)
	case version != modernVersion:
		return &Error{
			Code: CodeUnsupportedVersion, Message: "unsupported protocol version",
			Data: map[string]any{"supported": supported(), "requested": bounded(version)},
		}
	}
	if _, err := object(m.meta[metaAbilities]); err != nil {
		return refuse(CodeInvalidParams, "params._meta lacks %q, or it is no object", metaAbilities)
	}
	return nil
}

// encode is for values of ours, which always encode.
func encode(v any) json.RawMessage {
	b, _ := json.Marshal(v)
	return b
}
