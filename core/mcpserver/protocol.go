package mcpserver

import (
	"context"
	"encoding/json"
	"maps"
	"strings"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// Description describes the server to clients, in addition to Options.
type Description struct {
	Instructions string // replaces Options.Instructions
	// Extensions are the capabilities of extensions, by their identifiers. The methods of
	// the extension "…/NAME" begin with "NAME/"; Options.Extension answers them.
	Extensions map[string]json.RawMessage
	// Logging declares that legacy clients can set a log level: Options.Extension answers
	// logging/setLevel, too.
	Logging bool
	// Tasks is the capability "tasks" for clients of 2025-11-25, a JSON object; nil if
	// there are no tasks. Options.Extension answers tasks/get and the other methods of
	// tasks. In the modern era tasks are an extension.
	Tasks json.RawMessage
	// WatchTasks is called for a listen of the modern era that asks for notifications of
	// tasks, and returns the ids that it knows. It must not block. ctx ends with the
	// listen. May be nil.
	WatchTasks func(ctx context.Context, w TaskWatch) (known []string)
}

// TaskWatch is a subscriptions/listen that asks for notifications of tasks.
type TaskWatch struct {
	IDs          []string        // of the tasks
	Principal    string          // of the client; see [Request]
	Capabilities json.RawMessage // of the client
	// Send sends the client a notifications/tasks with params, a JSON object. It does not
	// block: a client that does not read gets the latest notification of each task, of at
	// most 256 tasks and 4 MiB.
	Send func(params json.RawMessage)
}

// declares reports whether a method belongs to one of the extensions.
func (d *Description) declares(method string) bool {
	name, _, ok := strings.Cut(method, "/")
	if !ok || d == nil {
		return false
	}
	for id := range d.Extensions {
		if id[strings.LastIndexByte(id, '/')+1:] == name {
			return true
		}
	}
	return false
}

// offers reports whether a method is available in an era, given the handlers in o and the
// description.
func (o *Options) offers(method string, modern bool, about *Description) bool {
	switch method {
	case mcp.MethodListTools, mcp.MethodCallTool:
		return o.CallTool != nil
	case mcp.MethodListPrompts, mcp.MethodGetPrompt:
		return o.GetPrompt != nil
	case mcp.MethodListResources, mcp.MethodListTemplates, mcp.MethodReadResource:
		return o.ReadResource != nil
	case mcp.MethodSubscribe, mcp.MethodUnsubscribe:
		return o.ReadResource != nil && !modern
	case mcp.MethodComplete:
		return o.Complete != nil
	case mcp.MethodInitialize, mcp.MethodPing:
		return !modern
	case mcp.MethodDiscover, mcp.MethodListen:
		return modern
	case mcp.MethodListEvents, mcp.MethodPollEvents, mcp.MethodSubscribeEvents, mcp.MethodUnsubscribeEvents, mcp.MethodStreamEvents:
		if o.Events.offered() {
			return true
		}
	}
	if method == mcp.MethodSetLevel {
		return !modern && about.Logging && o.Extension != nil
	}
	if !modern && strings.HasPrefix(method, "tasks/") {
		return about.Tasks != nil && o.Extension != nil
	}
	return o.Extension != nil && about.declares(method)
}

// capabilities returns the server's capabilities, given the handlers.
func (o *Options) capabilities() mcp.Capabilities {
	tools, prompts, resources := o.CallTool != nil, o.GetPrompt != nil, o.ReadResource != nil
	return mcp.Capabilities{
		Tools: tools, ToolsListChanged: tools,
		Prompts: prompts, PromptsListChanged: prompts,
		Resources: resources, ResourcesListChanged: resources, ResourcesSubscribe: resources,
		Completions: o.Complete != nil,
	}
}

// identity is how the server introduces itself.
type identity struct {
	opts  *Options
	about *Description
}

func (s *Server) identity() identity { return identity{&s.opts, s.about.Load()} }

// capabilities returns the capabilities of the server and its extensions.
func (id identity) capabilities() json.RawMessage {
	caps := encode(id.opts.capabilities())
	extensions := id.about.Extensions
	if id.opts.Events.offered() {
		// Some clients look for events among the extensions, others beside them.
		extensions = maps.Clone(extensions)
		if extensions == nil {
			extensions = map[string]json.RawMessage{}
		}
		extensions[mcp.ExtensionEvents] = json.RawMessage(eventsCapability)
		caps, _ = with(caps, []member{{"events", json.RawMessage(eventsCapability)}}) // it is an object
	}
	if len(extensions) > 0 {
		caps, _ = with(caps, []member{{"extensions", encode(extensions)}})
	}
	return caps
}

// listsOffered returns the lists whose changes are announced.
func (o *Options) listsOffered() subscriptions.Lists {
	return subscriptions.Lists{
		Tools:     o.CallTool != nil,
		Prompts:   o.GetPrompt != nil,
		Resources: o.ReadResource != nil,
		Events:    o.Events.offered(),
	}
}

func (o *Options) info() mcp.Implementation {
	return mcp.Implementation{Name: o.Name, Title: o.Title, Version: o.Version}
}

// initialized returns the result of initialize and the negotiated version: the client's
// if it is supported, else the newest of the legacy era.
func (id identity) initialized(m *message) (version string, result json.RawMessage, err *Error) {
	version = text(m.fields["protocolVersion"])
	if version == "" {
		return "", nil, errorf(mcp.CodeInvalidParams, `initialize: "protocolVersion" must be a string`)
	}
	if !mcp.IsLegacy(version) {
		version = mcp.LatestLegacy
	}
	caps := id.capabilities()
	if id.about.Logging {
		caps, _ = with(caps, []member{{"logging", json.RawMessage("{}")}}) // it is an object
	}
	if id.about.Tasks != nil && version == mcp.LatestLegacy {
		caps, _ = with(caps, []member{{"tasks", id.about.Tasks}}) // it is an object
	}
	return version, encode(struct {
		Version      string             `json:"protocolVersion"`
		Capabilities json.RawMessage    `json:"capabilities"`
		Info         mcp.Implementation `json:"serverInfo"`
		Instructions string             `json:"instructions,omitempty"`
	}{version, caps, id.opts.info(), id.about.Instructions}), nil
}

// withoutInitialize returns the versions that a request can name without a handshake.
func withoutInitialize() []string { return []string{mcp.ModernVersion} }

// discovered returns the result of server/discover.
func (id identity) discovered() json.RawMessage {
	return encode(struct {
		Versions     []string        `json:"supportedVersions"`
		Capabilities json.RawMessage `json:"capabilities"`
		Instructions string          `json:"instructions,omitempty"`
	}{withoutInitialize(), id.capabilities(), id.about.Instructions})
}

// checkMeta validates the protocol members of a modern request's _meta.
func checkMeta(m *message) *Error {
	version := m.version()
	switch {
	case m.meta[mcp.MetaProtocolVersion] == nil:
		return errorf(mcp.CodeInvalidParams, "params._meta lacks %q", mcp.MetaProtocolVersion)
	case version != mcp.ModernVersion:
		return &Error{
			Code: mcp.CodeUnsupportedVersion, Message: "unsupported protocol version",
			Data: map[string]any{"supported": withoutInitialize(), "requested": bounded(version)},
		}
	}
	if _, err := object(m.meta[mcp.MetaClientCapabilities]); err != nil {
		return errorf(mcp.CodeInvalidParams, "params._meta.%q must be an object", mcp.MetaClientCapabilities)
	}
	return nil
}

// encode marshals values that cannot fail to encode.
func encode(v any) json.RawMessage {
	b, _ := json.Marshal(v)
	return b
}
