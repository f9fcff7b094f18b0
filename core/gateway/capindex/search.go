package capindex

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// SearchToolName is the name of the search tool.
const SearchToolName = "search_capabilities"

const (
	defaultResults = 10
	maxResults     = 50
	maxQuery       = 1000 // maximum length in bytes
)

// SearchTool returns the MCP descriptor of the search tool.
func SearchTool() json.RawMessage {
	return json.RawMessage(`{"name":"` + SearchToolName + `","title":"Search capabilities",` +
		`"description":"Finds tools, prompts, resources and resource templates of all servers by words in their names, titles, descriptions and parameters. The best matches come first.",` +
		`"inputSchema":{"type":"object","properties":{` +
		`"query":{"type":"string","description":"Words to search for; any of them may match.","maxLength":1000},` +
		`"kind":{"type":"string","enum":["tools","prompts","resources","templates"],"description":"Only elements of this kind."},` +
		`"server":{"type":"string","description":"Only elements of this server."},` +
		`"limit":{"type":"integer","minimum":1,"maximum":50,"default":10,"description":"Maximum number of results."}},` +
		`"required":["query"],"additionalProperties":false},` +
		`"outputSchema":{"type":"object","properties":{"total":{"type":"integer"},"results":{"type":"array","items":{"type":"object",` +
		`"properties":{"kind":{"type":"string"},"server":{"type":"string"},"key":{"type":"string"},"title":{"type":"string"},` +
		`"description":{"type":"string"},"score":{"type":"number"}},"required":["kind","server","key","score"]}}},"required":["total","results"]},` +
		`"annotations":{"readOnlyHint":true,"idempotentHint":true,"openWorldHint":false}}`)
}

// searchArguments holds the arguments of the search tool.
type searchArguments struct {
	Query  string       `json:"query"`
	Kind   catalog.Kind `json:"kind"`
	Server string       `json:"server"`
	Limit  *int         `json:"limit"`
}

// A Result is one element found by a search. All strings except Kind come from a server.
type Result struct {
	Kind        catalog.Kind `json:"kind"`
	Server      string       `json:"server"`
	Key         string       `json:"key"` // name, URI or URI template with which the element can be used
	Title       string       `json:"title,omitempty"`
	Description string       `json:"description,omitempty"` // one line of at most 300 characters
	Score       float64      `json:"score"`
}

// Search handles a call to the search tool and returns an MCP tool result: JSON, both as text and
// as structured content. Invalid arguments cause a result with isError. Its error is the cause of ctx; see
// [Index.Read].
func (x *Index) Search(ctx context.Context, arguments json.RawMessage) (json.RawMessage, error) {
	args, problem := parseSearch(arguments)
	if problem != "" {
		return toolResult(problem, nil, true), nil
	}
	g, err := x.generation(ctx)
	if err != nil {
		return nil, err
	}
	hits := slices.DeleteFunc(g.find(args.Query), func(e hit) bool {
		return args.Kind != "" && e.kind != args.Kind || args.Server != "" && e.server.ID != args.Server
	})
	found := struct {
		Total   int      `json:"total"`
		Results []Result `json:"results"`
	}{len(hits), []Result{}}
	for _, e := range hits[:min(len(hits), *args.Limit)] {
		found.Results = append(found.Results, Result{Kind: e.kind, Server: e.server.ID, Key: e.key,
			Title: printable.Line(short(e.Title, 400), 100), Description: printable.Line(strings.Join(strings.Fields(short(e.Description, 1200)), " "), 300),
			Score: e.score})
	}
	text, err := printable.Marshal(found)
	if err != nil {
		return nil, fmt.Errorf("encode the search result: %w", err)
	}
	text = printable.JSON(text)
	return toolResult(string(text), text, false), nil
}

// parseSearch decodes and validates the arguments. If they are invalid, problem is a message for
// the caller of the tool; otherwise it is empty.
func parseSearch(raw json.RawMessage) (args searchArguments, problem string) {
	if len(bytes.TrimSpace(raw)) == 0 {
		raw = json.RawMessage("{}")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&args); err != nil {
		return args, "the arguments do not match the input schema: " + printable.Reason(err, 200)
	}
	byDefault := defaultResults
	if args.Limit == nil {
		args.Limit = &byDefault
	}
	switch {
	case strings.TrimSpace(args.Query) == "":
		return args, `"query" must contain words to search for`
	case len(args.Query) > maxQuery:
		return args, fmt.Sprintf(`"query" must not be longer than %d bytes`, maxQuery)
	case args.Kind != "" && !slices.Contains(kinds(), args.Kind):
		return args, `"kind" must be one of tools, prompts, resources and templates`
	case *args.Limit < 1 || *args.Limit > maxResults:
		return args, fmt.Sprintf(`"limit" must be from 1 to %d`, maxResults)
	}
	return args, ""
}

func toolResult(text string, structured json.RawMessage, isError bool) json.RawMessage {
	type content struct {
		Type string `json:"type"`
		Text string `json:"text"`
	}
	raw, _ := printable.Marshal(struct { // encoding strings and valid JSON cannot fail
		Content    []content       `json:"content"`
		Structured json.RawMessage `json:"structuredContent,omitempty"`
		IsError    bool            `json:"isError,omitempty"`
	}{[]content{{"text", text}}, structured, isError})
	return raw
}
