package mcp

// Methods of requests that clients send.
const (
	MethodInitialize    = "initialize"      // legacy
	MethodPing          = "ping"            // legacy
	MethodDiscover      = "server/discover" // modern
	MethodListTools     = "tools/list"
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

	// Of the extension [ExtensionEvents].
	MethodListEvents        = "events/list"
	MethodPollEvents        = "events/poll"
	MethodStreamEvents      = "events/stream"
	MethodSubscribeEvents   = "events/subscribe"
	MethodUnsubscribeEvents = "events/unsubscribe"
)

// Methods of tasks: part of 2025-11-25, and in the modern era an extension.
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

// Methods of notifications.
const (
	NotificationInitialized      = "notifications/initialized" // legacy
	NotificationCancelled        = "notifications/cancelled"
	NotificationProgress         = "notifications/progress"
	NotificationAcknowledged     = "notifications/subscriptions/acknowledged" // modern
	NotificationMessage          = "notifications/message"
	NotificationRootsChanged     = "notifications/roots/list_changed" // of a client
	NotificationResourceUpdated  = "notifications/resources/updated"
	NotificationToolsChanged     = "notifications/tools/list_changed"
	NotificationPromptsChanged   = "notifications/prompts/list_changed"
	NotificationResourcesChanged = "notifications/resources/list_changed"
	NotificationEventsChanged    = "notifications/events/list_changed"
)

// Members of _meta that the protocol reserves.
const (
	MetaProtocolVersion    = "io.modelcontextprotocol/protocolVersion"
	MetaClientInfo         = "io.modelcontextprotocol/clientInfo"
	MetaClientCapabilities = "io.modelcontextprotocol/clientCapabilities"
	MetaServerInfo         = "io.modelcontextprotocol/serverInfo"
	MetaSubscriptionID     = "io.modelcontextprotocol/subscriptionId"
	MetaRelatedTask        = "io.modelcontextprotocol/related-task" // legacy
	MetaLogLevel           = "io.modelcontextprotocol/logLevel"     // modern
)

// Headers of Streamable HTTP.
const (
	HeaderSession         = "Mcp-Session-Id" // legacy
	HeaderProtocolVersion = "Mcp-Protocol-Version"
	HeaderMethod          = "Mcp-Method" // modern
	HeaderName            = "Mcp-Name"   // modern
	HeaderLastEventID     = "Last-Event-ID"
)
