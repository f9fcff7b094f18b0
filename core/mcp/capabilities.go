package mcp

import (
	"encoding/json"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// Capabilities contains the server capabilities that mcptrack uses. Its JSON encoding follows the
// MCP specification.
type Capabilities struct {
	Resources, Tools, Prompts, Completions bool

	ResourcesSubscribe                                         bool
	ResourcesListChanged, ToolsListChanged, PromptsListChanged bool

	// Events is true if the server declares [ExtensionEvents], either in "extensions" or under
	// "events" at the top level, as servers did before the extension had an identifier.
	Events, EventsListChanged bool

	// Skills is true if the server declares [ExtensionSkills], and SkillsDirectoryRead is the
	// extension's only setting.
	Skills, SkillsDirectoryRead bool
}

// Has reports whether the server offers lists of this kind.
func (c Capabilities) Has(k catalog.Kind) bool {
	switch k {
	case catalog.Resources, catalog.Templates:
		return c.Resources
	case catalog.Tools:
		return c.Tools
	case catalog.Prompts:
		return c.Prompts
	case catalog.Events:
		return c.Events
	case catalog.Skills:
		return c.Skills
	}
	return false
}

type wireCapability struct {
	ListChanged bool `json:"listChanged,omitempty"`
	Subscribe   bool `json:"subscribe,omitempty"`
}

type wireCapabilities struct {
	Resources   *wireCapability `json:"resources,omitempty"`
	Tools       *wireCapability `json:"tools,omitempty"`
	Prompts     *wireCapability `json:"prompts,omitempty"`
	Completions json.RawMessage `json:"completions,omitempty"`
	Events      *wireCapability `json:"events,omitempty"`
	Extensions  json.RawMessage `json:"extensions,omitempty"`
}

// wireSkills contains the settings of [ExtensionSkills].
type wireSkills struct {
	DirectoryRead bool `json:"directoryRead,omitempty"`
}

// ParseCapabilities parses the capabilities that a server declares. A member with the wrong type is
// treated as declared without options, so that one mistake does not hide the other members.
func ParseCapabilities(raw json.RawMessage) Capabilities {
	var w wireCapabilities
	if json.Unmarshal(raw, &w) != nil {
		var members map[string]json.RawMessage
		_ = json.Unmarshal(raw, &members)
		for name, into := range map[string]**wireCapability{"resources": &w.Resources, "tools": &w.Tools, "prompts": &w.Prompts, "events": &w.Events} {
			if _, ok := members[name]; ok && *into == nil {
				*into = new(wireCapability)
			}
		}
	}
	c := Capabilities{Completions: len(w.Completions) > 0 && string(w.Completions) != "null"}
	if r := w.Resources; r != nil {
		c.Resources, c.ResourcesSubscribe, c.ResourcesListChanged = true, r.Subscribe, r.ListChanged
	}
	if t := w.Tools; t != nil {
		c.Tools, c.ToolsListChanged = true, t.ListChanged
	}
	if p := w.Prompts; p != nil {
		c.Prompts, c.PromptsListChanged = true, p.ListChanged
	}
	if e := w.Events; e != nil {
		c.Events, c.EventsListChanged = true, e.ListChanged
	}
	c.extensions(w.Extensions)
	return c
}

// Isolated reports whether a server declares that clients must not share its process. It reads the
// capability "x-mux" as mcp-mux does: at the top level, else under "experimental".
func Isolated(capabilities json.RawMessage) bool {
	type mux struct {
		Sharing string `json:"sharing"`
	}
	var declared struct {
		Mux          *mux `json:"x-mux"`
		Experimental struct {
			Mux mux `json:"x-mux"`
		} `json:"experimental"`
	}
	if json.Unmarshal(capabilities, &declared) != nil {
		return false
	}
	if declared.Mux == nil {
		declared.Mux = &declared.Experimental.Mux
	}
	return declared.Mux.Sharing == "isolated"
}

// extensions parses the "extensions" member. Only [ExtensionEvents] and [ExtensionSkills] are used.
// An extension whose settings have the wrong type is treated as declared without settings.
func (c *Capabilities) extensions(raw json.RawMessage) {
	var declared map[string]json.RawMessage
	_ = json.Unmarshal(raw, &declared) // a member with the wrong type declares nothing
	if value, ok := declared[ExtensionEvents]; ok && string(value) != "null" {
		var events wireCapability
		_ = json.Unmarshal(value, &events)
		c.Events, c.EventsListChanged = true, c.EventsListChanged || events.ListChanged
	}
	if value, ok := declared[ExtensionSkills]; ok && string(value) != "null" {
		var skills wireSkills
		_ = json.Unmarshal(value, &skills)
		c.Skills, c.SkillsDirectoryRead = true, skills.DirectoryRead
	}
}

// MarshalJSON implements [json.Marshaler].
func (c Capabilities) MarshalJSON() ([]byte, error) {
	var w wireCapabilities
	if c.Resources {
		w.Resources = &wireCapability{ListChanged: c.ResourcesListChanged, Subscribe: c.ResourcesSubscribe}
	}
	if c.Tools {
		w.Tools = &wireCapability{ListChanged: c.ToolsListChanged}
	}
	if c.Prompts {
		w.Prompts = &wireCapability{ListChanged: c.PromptsListChanged}
	}
	if c.Completions {
		w.Completions = json.RawMessage(`{}`)
	}
	if c.Events {
		w.Events = &wireCapability{ListChanged: c.EventsListChanged}
	}
	if c.Skills {
		var err error
		if w.Extensions, err = json.Marshal(map[string]wireSkills{ExtensionSkills: {c.SkillsDirectoryRead}}); err != nil {
			return nil, err
		}
	}
	return json.Marshal(w)
}
