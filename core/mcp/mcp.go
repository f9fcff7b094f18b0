// Package mcp defines the parts of the Model Context Protocol that the client side (core/session)
// and the server side (core/mcpserver) share: names, error codes and the encodings of a few
// messages. It contains no protocol logic.
//
// mcptrack supports two eras. The legacy era covers versions 2024-11-05 to 2025-11-25: an
// initialize handshake, resources/subscribe and, over HTTP, a GET stream for notifications. The
// modern era starts with version 2026-07-28: server/discover, subscriptions/listen, and the
// protocol version in the _meta of every request.
//
// Source: https://modelcontextprotocol.io/specification, which has one directory per version.
package mcp

import (
	"slices"
)

// The protocol version of the modern era, and the newest version of the legacy era.
const (
	ModernVersion = "2026-07-28"
	LatestLegacy  = "2025-11-25"
)

// Versions returns all supported protocol versions, newest first.
func Versions() []string {
	return []string{ModernVersion, LatestLegacy, "2025-06-18", "2025-03-26", "2024-11-05"}
}

// IsLegacy reports whether a version is supported and belongs to the legacy era.
func IsLegacy(version string) bool {
	return version != ModernVersion && slices.Contains(Versions(), version)
}

// Methods of requests that clients send.
const (
	MethodInitialize    = "initialize"      // legacy
	MethodPing          = "ping"            // legacy
	MethodDiscover      = "server/discover" // modern
	MethodListTools     = "tools/list"
	MethodListRoots     = "roots/list" // asked by servers
	MethodCallTool      = "tools/call"
	MethodListPrompts   = "prompts/list"
	MethodGetPrompt     = "prompts/get"
	MethodListResources = "resources/list"
	MethodListTemplates = "resources/templates/list"
	MethodReadResource  = "resources/read"
	MethodSubscribe     = "resources/subscribe"   // legacy
	MethodUnsubscribe   = "resources/unsubscribe" // legacy
	MethodComplete      = "completion/complete"
	MethodSetLevel      = "logging/setLevel"     // legacy
	MethodListen        = "subscriptions/listen" // modern

	// Methods of MCP Events; see [ExtensionEvents].
	MethodListEvents        = "events/list"
	MethodPollEvents        = "events/poll"
	MethodStreamEvents      = "events/stream"
	MethodSubscribeEvents   = "events/subscribe"
	MethodUnsubscribeEvents = "events/unsubscribe"
)

// Methods for tasks, which are part of version 2025-11-25 and an extension in the modern era.
const (
	MethodGetTask    = "tasks/get"
	MethodCancelTask = "tasks/cancel"
	MethodTaskResult = "tasks/result" // legacy
	MethodListTasks  = "tasks/list"   // legacy
	MethodUpdateTask = "tasks/update" // modern

	NotificationTaskStatus = "notifications/tasks/status" // legacy
	NotificationTask       = "notifications/tasks"        // modern

	ExtensionTasks = "io.modelcontextprotocol/tasks"
)

// Methods of notifications that clients or servers send.
const (
	NotificationInitialized         = "notifications/initialized" // legacy
	NotificationCancelled           = "notifications/cancelled"
	NotificationProgress            = "notifications/progress"
	NotificationAcknowledged        = "notifications/subscriptions/acknowledged" // modern
	NotificationMessage             = "notifications/message"
	NotificationElicitationComplete = "notifications/elicitation/complete"
	NotificationRootsChanged        = "notifications/roots/list_changed" // sent by clients
	NotificationResourceUpdated     = "notifications/resources/updated"
	NotificationToolsChanged        = "notifications/tools/list_changed"
	NotificationPromptsChanged      = "notifications/prompts/list_changed"
	NotificationResourcesChanged    = "notifications/resources/list_changed"
	NotificationEventsChanged       = "notifications/events/list_changed"
)

// Names of _meta members that the protocol reserves.
const (
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaRelatedTask        = "io.modelcontextprotocol/related-task" // legacy
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"     // modern
)

// HTTP headers that Streamable HTTP defines.
const (
	HeaderSession         = "Mcp-Session-Id" // legacy
	HeaderProtocolVersion = "Mcp-Protocol-Version"
	HeaderMethod          = "Mcp-Method" // modern
	HeaderName            = "Mcp-Name"   // modern
	HeaderLastEventID     = "Last-Event-ID"
)

// Error codes that JSON-RPC and MCP define.
const (
	CodeParse              = -32700
	CodeInvalidRequest     = -32600
	CodeMethodNotFound     = -32601
	CodeInvalidParams      = -32602
	CodeInternal           = -32603
	CodeResourceNotFound   = -32002 // legacy; modern servers return CodeInvalidParams
	CodeSessionUnknown     = -32001 // of the MCP SDKs, to a request for an unknown session
	CodeHeaderMismatch     = -32020 // modern
	CodeMissingCapability  = -32021 // modern
	CodeUnsupportedVersion = -32022 // modern
)

// Implementation is the name and version with which a client or server identifies itself.
type Implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

// SubscriptionFilter lists the notifications that a subscriptions/listen request asks for, or that
// its acknowledgement grants.
type SubscriptionFilter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	Events    bool     `json:"eventsListChanged,omitempty"` // see [ExtensionEvents]
	URIs      []string `json:"resourceSubscriptions,omitempty"`
}
