package vault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/tracing"
)

// ServerOptions configures a vault and its server.
type ServerOptions struct {
	Vault Options
	// Name, Title, Version and Instructions are sent to clients when they connect; the defaults are
	// "mcptrack-vault", "Vault", "dev" and a sentence about notes.
	Name, Title, Version, Instructions string
	// Principal, SessionDir and Tracer are passed to [mcpserver.Options].
	Principal  func(*http.Request) string
	SessionDir string
	Tracer     *tracing.Tracer
	// MaxSubscriptions is the maximum number of resources that one client may subscribe to; default
	// 10,000.
	MaxSubscriptions int
	// CallTool handles calls to the tools that were added with [Server.Offer], and GetPrompt
	// handles requests for the prompts that were added with it. They may be nil if there are none.
	CallTool, GetPrompt mcpserver.Func
}

// Server serves a vault over MCP. Create it with NewServer and call Run. Once it is Ready, serve
// clients with ServeIO or ServeHTTP of the embedded server.
type Server struct {
	*mcpserver.Server
	vault *Vault
	other mcpserver.Func // handles calls to tools added with Offer; nil if there are none

	mu                                sync.Mutex        // guards the fields below
	resources, skills, tools, prompts []json.RawMessage // parts of the catalog; tools are the ones added with Offer
}

// NewServer opens a vault and creates a server for it. Errors caused by invalid options are of type
// *[OptionError].
func NewServer(opts ServerOptions) (*Server, error) {
	v, err := Open(opts.Vault)
	if err != nil {
		return nil, err
	}
	s := &Server{vault: v, other: opts.CallTool}
	instructions := cmp.Or(opts.Instructions, "Notes in Markdown. Subscribe to vault://recent, to a note or to a folder to be notified of changes.")
	s.Server = mcpserver.New(mcpserver.Options{
		Name: cmp.Or(opts.Name, "mcptrack-vault"), Title: cmp.Or(opts.Title, "Vault"), Version: opts.Version,
		Principal:     opts.Principal,
		SessionDir:    opts.SessionDir,
		Tracer:        opts.Tracer,
		Logger:        opts.Vault.Logger,
		CallTool:      s.callTool,
		GetPrompt:     opts.GetPrompt,
		ReadResource:  s.readResource,
		Complete:      s.complete,
		Skills:        true,
		Extension:     s.extension,
		Subscriptions: subscriptions.Options{Subscribable: v.Subscribable, MaxURIs: opts.MaxSubscriptions},
	})
	s.Describe(mcpserver.Description{
		Instructions: instructions,
		Extensions:   map[string]json.RawMessage{mcp.ExtensionSkills: json.RawMessage(`{"directoryRead":true}`)},
	})
	return s, nil
}

// Ready returns a channel that is closed once the vault can be served.
func (s *Server) Ready() <-chan struct{} { return s.vault.Ready() }

// Vault returns the vault that is served.
func (s *Server) Vault() *Vault { return s.vault }

// Run keeps the vault in sync with its folder and notifies clients until ctx ends, and then returns
// the cause of ctx. Call it only once.
func (s *Server) Run(ctx context.Context) error {
	return s.vault.Run(ctx, Listener{
		Subscribed: s.Subscriptions().URIs,
		Updated:    s.Updated,
		Listed: func(resources, skills []json.RawMessage) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.resources, s.skills = resources, skills
			s.list()
		},
	})
}

// Offer replaces the tools and prompts that are listed in addition to the vault's own. The caller
// must not modify the slices afterwards.
func (s *Server) Offer(tools, prompts []json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools, s.prompts = tools, prompts
	s.list()
}

// list publishes the catalog. s.mu must be held.
func (s *Server) list() {
	s.SetCatalog(mcpserver.Catalog{
		Tools: append(tools(), s.tools...), Prompts: s.prompts,
		Resources: append(resources(), s.resources...), Templates: templates(),
		Skills: s.skills,
	})
}

// Close closes every connection and then the vault. Call it only once, after Run has returned.
func (s *Server) Close() error {
	s.Server.Close()
	return s.vault.Close()
}

func (s *Server) readResource(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	if r.URI() == "" {
		return nil, refuse("Resource URI cannot be empty")
	}
	c, err := s.vault.Read(ctx, r.URI())
	if err != nil {
		return nil, wireError(err)
	}
	contents := object{"uri": r.URI(), "mimeType": c.MIMEType, "text": c.Text}
	if c.Blob != "" {
		delete(contents, "text")
		contents["blob"] = c.Blob
	}
	return encode(object{"contents": []object{contents}}), nil
}

// maxChildren is the maximum number of children in a result of resources/directory/read.
const maxChildren = 1_000

// extension handles the methods of the Skills extension (SEP-2640) except skills/list.
func (s *Server) extension(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	switch r.Method {
	case mcp.MethodGetSkill:
		item, err := s.vault.Skill(r.URI())
		if err != nil {
			return nil, refuse(err.Error())
		}
		return encode(object{"skill": item}), nil
	case mcp.MethodReadDirectory:
		children, err := s.vault.ReadFolder(r.URI())
		if err != nil {
			return nil, refuse(err.Error())
		}
		// A cursor is the name of the last child that was sent.
		var params struct{ Cursor string }
		if json.Unmarshal(r.Params, &params) != nil {
			return nil, refuse(`"cursor" must be a string`)
		}
		at, _ := slices.BinarySearchFunc(children, params.Cursor+"\x00", func(c Child, after string) int { return cmp.Compare(c.Name, after) })
		children = children[at:]
		result := object{"resources": children}
		if len(children) > maxChildren {
			result["resources"], result["nextCursor"] = children[:maxChildren], children[maxChildren-1].Name
		}
		return encode(result), nil
	}
	return nil, &mcpserver.Error{Code: mcp.CodeMethodNotFound, Message: "method not found: " + printable.Line(r.Method, 100)}
}

// wireError converts an error from the vault to an error that may be sent to clients.
func wireError(err error) error {
	if errors.Is(err, ErrNotFound) {
		return mcpserver.ErrNotFound
	}
	if bad, ok := errors.AsType[*uriError](err); ok {
		return refuse(bad.Error())
	}
	return err
}

func refuse(text string) error {
	return &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: text}
}

// complete handles completion requests for paths in the resource templates.
func (s *Server) complete(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	var params struct {
		Ref struct {
			Type string `json:"type"`
			URI  string `json:"uri"`
		} `json:"ref"`
		Argument struct {
			Name  string `json:"name"`
			Value string `json:"value"`
		} `json:"argument"`
	}
	if json.Unmarshal(r.Params, &params) != nil {
		return nil, refuse("ref and argument are required")
	}
	folders := params.Ref.URI == folderTemplate
	if params.Ref.Type != "ref/resource" || !folders && params.Ref.URI != noteTemplate {
		return nil, refuse("only the arguments of the resource templates can be completed")
	}
	if params.Argument.Name != "path" {
		return nil, refuse(fmt.Sprintf("the template has no argument %q", params.Argument.Name))
	}
	paths, total := s.vault.Complete(params.Argument.Value, folders)
	return encode(map[string]any{"completion": map[string]any{
		"values": listOf(paths), "total": total, "hasMore": total > len(paths),
	}}), nil
}

func (s *Server) callTool(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	var params struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(r.Params, &params); err != nil {
		return nil, refuse("arguments must be an object")
	}
	if len(params.Arguments) == 0 {
		params.Arguments = json.RawMessage("{}")
	}
	switch r.Name() {
	case "search_notes":
		var o SearchOptions
		if err := json.Unmarshal(params.Arguments, &o); err != nil {
			return toolError(argumentError(err)), nil
		}
		results, total, err := s.vault.Search(ctx, o)
		if err != nil {
			return failedTool(ctx, err)
		}
		return toolResult("", object{"results": results, "total": total}), nil
	case "read_note":
		var o struct {
			Path string `json:"path"`
		}
		if err := json.Unmarshal(params.Arguments, &o); err != nil {
			return toolError(argumentError(err)), nil
		}
		n, err := s.vault.ReadNote(ctx, o.Path)
		if err != nil {
			return failedTool(ctx, err)
		}
		return toolResult(n.Content, n), nil
	}
	if s.other != nil {
		return s.other(ctx, r)
	}
	return nil, fmt.Errorf("%w: tool %q", mcpserver.ErrNotFound, r.Name())
}

// failedTool returns an error that the model can correct as a tool result, and any other error as a
// protocol error.
func failedTool(ctx context.Context, err error) (json.RawMessage, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if errors.Is(err, ErrInvalid) || errors.Is(err, ErrNotFound) {
		return toolError(printable.Reason(err, 500)), nil
	}
	return nil, err
}

const (
	noteTemplate   = notePrefix + "{+path}"
	folderTemplate = folderPrefix + "{+path}"
)

// object is a JSON object.
type object = map[string]any

func resources() (items []json.RawMessage) {
	for _, r := range [][3]string{
		{recentURI, "Recent notes", "The most recently changed notes. ?mode=preview|full&limit=&offset="},
		{statsURI, "Statistics", "The number of files and notes"},
		{tagsURI, "Tags", "The most used tags; all with ?mode=full"},
		{structureURI, "Structure", "The folder tree with file names"},
	} {
		items = append(items, encode(object{
			"uri": r[0], "name": r[0][len(scheme):], "title": r[1], "description": r[2], "mimeType": mimeJSON,
		}))
	}
	return items
}

func templates() []json.RawMessage {
	return []json.RawMessage{
		encode(object{"uriTemplate": noteTemplate, "name": "note", "title": "Note", "description": "The text of a note", "mimeType": mimeMarkdown}),
		encode(object{"uriTemplate": folderTemplate, "name": "folder", "title": "Folder", "description": "The entries of a folder", "mimeType": mimeJSON}),
	}
}

func tools() []json.RawMessage {
	text := func(description string) object { return object{"type": "string", "description": description} }
	list := object{"type": "array", "items": object{"type": "string"}}
	readOnly := object{"readOnlyHint": true, "openWorldHint": false}
	return []json.RawMessage{
		encode(object{
			"name": "search_notes", "title": "Search notes", "annotations": readOnly,
			"description": "Finds notes by words, by tag, or by both. A note must contain all words.",
			"inputSchema": object{"type": "object", "properties": object{
				"query":  text("Words to find; a word of three letters or more also matches longer words that start with it"),
				"tag":    text("A tag, with or without #; nested tags match, too"),
				"folder": text("Only notes in this folder and its subfolders"),
				"limit":  object{"type": "integer", "minimum": 1, "maximum": maxResults, "default": defaultLimit},
			}},
			"outputSchema": object{"type": "object", "required": []string{"results", "total"}, "properties": object{
				"total": object{"type": "integer"},
				"results": object{"type": "array", "items": object{"type": "object", "required": []string{"path", "uri", "title"}, "properties": object{
					"path": text("Path in the vault"), "uri": text("URI of the note"), "title": text("Title"), "modifiedAt": text("When it was changed"),
					"tags": list, "score": object{"type": "number"}, "snippet": text("Text around a word"),
				}}},
			}},
		}),
		encode(object{
			"name": "read_note", "title": "Read a note", "annotations": readOnly,
			"description": "The text of a note with its tags, links and backlinks.",
			"inputSchema": object{"type": "object", "required": []string{"path"}, "properties": object{
				"path": text("Path of the note, or its name as in a [[link]]"),
			}},
			"outputSchema": object{"type": "object", "required": []string{"path", "uri", "title", "content"}, "properties": object{
				"path": text("Path in the vault"), "uri": text("URI of the note"), "title": text("Title"), "modifiedAt": text("When it was changed"),
				"size": object{"type": "integer"}, "tags": list, "frontmatter": object{"type": "object"},
				"links": list, "brokenLinks": list, "backlinks": list, "content": text("The whole text"),
			}},
		}),
	}
}

// argumentError returns a message that identifies the argument with the wrong type, without Go's
// type names.
func argumentError(err error) string {
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && t.Field != "" {
		return fmt.Sprintf("invalid argument: %s cannot be a %s", t.Field, t.Value)
	}
	return "arguments must be an object"
}

func toolError(text string) json.RawMessage {
	return encode(object{"isError": true, "content": []object{{"type": "text", "text": text}}})
}

// toolResult returns structured content. Its JSON is also the text content, unless text is
// specified.
func toolResult(text string, structure any) json.RawMessage {
	if text == "" {
		text = string(encode(structure))
	}
	return encode(object{"content": []object{{"type": "text", "text": text}}, "structuredContent": structure})
}
