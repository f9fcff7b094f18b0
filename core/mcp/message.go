package mcp

// Implementation is how a client or a server introduces itself.
type Implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

// SubscriptionFilter lists the notifications that a subscriptions/listen asks for, or that
// its acknowledgement grants.
type SubscriptionFilter struct {
	Tools     bool     `json:"toolsListChanged,omitempty"`
	Prompts   bool     `json:"promptsListChanged,omitempty"`
	Resources bool     `json:"resourcesListChanged,omitempty"`
	Events    bool     `json:"eventsListChanged,omitempty"` // of the extension [ExtensionEvents]
	URIs      []string `json:"resourceSubscriptions,omitempty"`
}
