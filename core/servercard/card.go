package servercard

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Media types.
const (
	CardType    = "application/mcp-server-card+json"
	CatalogType = "application/ai-catalog+json"

	earlierCardType = "application/mcp-server+json" // of drafts
)

// Schema is the value of "$schema" in a card.
const Schema = "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json"

// Paths of the documents about a server.
const (
	CatalogPath = "/.well-known/ai-catalog.json"
	CardPath    = "/.well-known/mcp/server-card.json"
	Suffix      = "/server-card" // of the URL of an endpoint
)

// Card is a Server Card, without the members that this program does not use. The texts of a parsed card
// are untrusted.
type Card struct {
	Schema      string   `json:"$schema,omitempty"`
	Name        string   `json:"name"` // NAMESPACE/NAME, where the namespace is a reversed domain
	Version     string   `json:"version"`
	Description string   `json:"description"`
	Title       string   `json:"title,omitempty"`
	WebsiteURL  string   `json:"websiteUrl,omitempty"`
	Remotes     []Remote `json:"remotes,omitempty"`
}

// Types of remotes.
const (
	StreamableHTTP = "streamable-http"
	SSE            = "sse"
)

// Remote is an endpoint of a server.
type Remote struct {
	Type string `json:"type"`
	// URL may contain the names of variables in braces.
	URL                       string           `json:"url"`
	Headers                   []Header         `json:"headers,omitempty"`
	Variables                 map[string]Input `json:"variables,omitempty"`
	SupportedProtocolVersions []string         `json:"supportedProtocolVersions,omitempty"`
}

// Input describes a value that the user has to supply, or one that is fixed.
type Input struct {
	Description string   `json:"description,omitempty"`
	IsRequired  bool     `json:"isRequired,omitempty"`
	IsSecret    bool     `json:"isSecret,omitempty"`
	Default     string   `json:"default,omitempty"`
	Placeholder string   `json:"placeholder,omitempty"`
	Value       string   `json:"value,omitempty"`
	Choices     []string `json:"choices,omitempty"`
}

// Header describes a header of the requests to an endpoint.
type Header struct {
	Name string `json:"name"`
	Input
	Variables map[string]Input `json:"variables,omitempty"` // of Value
}

// Limits on a card.
const (
	maxName      = 200  // bytes of the name
	maxText      = 4096 // bytes of any other text
	maxRemotes   = 16
	maxHeaders   = 32 // of a remote
	maxVariables = 32 // of a remote, and of a header
)

// Parse parses a card. It ignores unknown members. Errors quote nothing of the card but names of members.
func Parse(data []byte) (*Card, error) {
	var c Card
	if err := decode(data, &c); err != nil {
		return nil, err
	}
	switch {
	case c.Schema != "" && !isCardSchema(c.Schema):
		return nil, errors.New("its $schema is not the schema of a server card")
	case strings.TrimSpace(c.Name) == "" || len(c.Name) > maxName:
		return nil, errors.New("it has no usable name")
	case len(c.Remotes) > maxRemotes:
		return nil, fmt.Errorf("it has more than %d remotes", maxRemotes)
	case tooLong(c.Version, c.Description, c.Title, c.WebsiteURL):
		return nil, errTooLong
	}
	for _, r := range c.Remotes {
		switch {
		case r.URL == "" || r.Type == "":
			return nil, errors.New(`a remote lacks "type" or "url"`)
		case len(r.Headers) > maxHeaders || len(r.Variables) > maxVariables || len(r.SupportedProtocolVersions) > maxVariables:
			return nil, errors.New("a remote has too many headers, variables or versions")
		case tooLong(append(r.SupportedProtocolVersions, r.Type, r.URL)...) || inputsTooLong(r.Variables):
			return nil, errTooLong
		}
		for _, h := range r.Headers {
			switch {
			case h.Name == "":
				return nil, errors.New(`a header lacks "name"`)
			case len(h.Variables) > maxVariables:
				return nil, errors.New("a header has too many variables")
			case tooLong(h.Name) || inputsTooLong(map[string]Input{"": h.Input}) || inputsTooLong(h.Variables):
				return nil, errTooLong
			}
		}
	}
	return &c, nil
}

var errTooLong = fmt.Errorf("a text is longer than %d bytes", maxText)

// isCardSchema reports whether a $schema names the schema of a card, of this version or a draft.
func isCardSchema(s string) bool {
	return strings.HasSuffix(s, "/server-card.schema.json") || strings.HasSuffix(s, "/server-card.json")
}

func tooLong(texts ...string) bool {
	for _, s := range texts {
		if len(s) > maxText {
			return true
		}
	}
	return false
}

func inputsTooLong(all map[string]Input) bool {
	for name, in := range all {
		if tooLong(append(in.Choices, name, in.Description, in.Default, in.Placeholder, in.Value)...) {
			return true
		}
	}
	return false
}

// Label returns how people call the server, as one printable line.
func (c *Card) Label() string {
	if title := printable.Line(c.Title, 100); title != "" {
		return title
	}
	return printable.Line(c.Name, 100)
}

// Differs returns the names of the members in which two cards differ, in the order of the struct.
func (c *Card) Differs(other *Card) (members []string) {
	if c.Schema != other.Schema {
		members = append(members, "$schema")
	}
	for _, m := range []struct{ name, a, b string }{{"name", c.Name, other.Name}, {"version", c.Version, other.Version},
		{"description", c.Description, other.Description}, {"title", c.Title, other.Title}, {"websiteUrl", c.WebsiteURL, other.WebsiteURL}} {
		if m.a != m.b {
			members = append(members, m.name)
		}
	}
	if !reflect.DeepEqual(c.Remotes, other.Remotes) {
		members = append(members, "remotes")
	}
	return members
}

// decode parses a JSON object of limited depth.
func decode(data []byte, into any) error {
	data = bytes.TrimPrefix(data, []byte("\xef\xbb\xbf"))
	switch trimmed := bytes.TrimSpace(data); {
	case !json.Valid(data):
		return errors.New("it is not JSON")
	case trimmed[0] != '{':
		return errors.New("it is not a JSON object")
	case catalog.Depth(data) > catalog.MaxDepth:
		return fmt.Errorf("it is nested more than %d levels deep", catalog.MaxDepth)
	}
	err := json.Unmarshal(data, into)
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("member %q has the wrong type", printable.Line(wrong.Field, 64))
	}
	return err
}
