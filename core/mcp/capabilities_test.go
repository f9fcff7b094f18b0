package mcp_test

import (
	"encoding/json"
	"testing"

	"github.com/mcptrack/mcptrack/core/mcp"
)

func TestCapabilities(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]mcp.Capabilities{
		`{}`:   {},
		`null`: {},
		`7`:    {},
		`{"tools":{"listChanged":true},"completions":{}}`:                            {Tools: true, ToolsListChanged: true, Completions: true},
		`{"resources":{"subscribe":true,"listChanged":true},"prompts":{}}`:           {Resources: true, ResourcesSubscribe: true, ResourcesListChanged: true, Prompts: true},
		`{"resources":{"subscribe":"yes"},"tools":7,"prompts":{"listChanged":true}}`: {Resources: true, Tools: true, Prompts: true, PromptsListChanged: true},
		`{"completions":null}`:            {},
		`{"events":{"listChanged":true}}`: {Events: true, EventsListChanged: true},
		`{"events":7,"tools":{}}`:         {Events: true, Tools: true},
		`{"extensions":{"io.modelcontextprotocol/events":{"listChanged":true}}}`:                  {Events: true, EventsListChanged: true},
		`{"extensions":{"io.modelcontextprotocol/events":true},"events":{"listChanged":false}}`:   {Events: true},
		`{"extensions":{"io.modelcontextprotocol/events":null,"x":{}}}`:                           {},
		`{"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":true}},"resources":{}}`: {Skills: true, SkillsDirectoryRead: true, Resources: true},
		`{"extensions":{"io.modelcontextprotocol/skills":{"directoryRead":"yes"}}}`:               {Skills: true},
		`{"extensions":{"io.modelcontextprotocol/skills":[]}}`:                                    {Skills: true},
		`{"extensions":{"io.modelcontextprotocol/skills":null}}`:                                  {},
		`{"extensions":7,"resources":{}}`:                                                         {Resources: true},
	} {
		got := mcp.ParseCapabilities(json.RawMessage(raw))
		if got != want {
			t.Errorf("%s: %+v", raw, got)
		}
		again, err := json.Marshal(got)
		if err != nil || mcp.ParseCapabilities(again) != got {
			t.Errorf("%s was written as %s (%v)", raw, again, err)
		}
	}
}

func TestIsolated(t *testing.T) {
	t.Parallel()
	for capabilities, want := range map[string]bool{
		`{"x-mux":{"sharing":"isolated"}}`:                                               true,
		`{"experimental":{"x-mux":{"sharing":"isolated"},"other":1}}`:                    true,
		`{"x-mux":{"sharing":"shared"},"experimental":{"x-mux":{"sharing":"isolated"}}}`: false,
		`{"x-mux":{"sharing":"session-aware"}}`:                                          false,
		`{"tools":{}}`:                                                                   false, `{"x-mux":"isolated"}`: false, ``: false,
	} {
		if got := mcp.Isolated(json.RawMessage(capabilities)); got != want {
			t.Errorf("%s: %t", capabilities, got)
		}
	}
}
