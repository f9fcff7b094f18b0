package vault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"github.com/mcptrack/mcptrack/core/serve"
	"github.com/mcptrack/mcptrack/core/subscriptions"
)

// ServerOptions are a vault and how it is served.
type ServerOptions struct {
	Vault Options
	// Name, Title, Version and Instructions are what clients are told;
	// "mcptrack-vault", "Vault", "dev" and a line about notes.
	Name, Title, Version, Instructions string
	// MaxSubscriptions bounds the resources of one client; 10,000.
	MaxSubscriptions int
	// CallTool answers calls of tools that the vault does not have, GetPrompt those
	// of prompts; see [Server.Offer]. nil: there are none.
	CallTool, GetPrompt serve.Func
}

// Server is a vault as an MCP server. Make it with NewServer, Run it, and give it to
// clients by ServeIO and ServeHTTP of the embedded server, once it is Ready.
type Server struct {
	*serve.Server
	vault *Vault
	other serve.Func // tools that are not the vault's

	mu                    sync.Mutex // held to put the catalog together
	notes, tools, prompts []json.RawMessage
}

// NewServer opens a vault and a server for it. Errors of options are of type
// *[OptionError].
func NewServer(opts ServerOptions) (*Server, error) {
	v, err := Open(opts.Vault)
	if err != nil {
		return nil, err
	}
	s := &Server{vault: v, other: opts.CallTool}
	s.Server = serve.New(serve.Options{
		Name: cmp.Or(opts.Name, "mcptrack-vault"), Title: cmp.Or(opts.Title, "Vault"), Version: opts.Version,
		Instructions:  cmp.Or(opts.Instructions, "Notes in Markdown. Subscribe to vault://recent, to a note or to a folder to be told of changes."),
		CallTool:      s.callTool,
		GetPrompt:     opts.GetPrompt,
		ReadResource:  s.readResource,
		Complete:      s.complete,
		Subscriptions: subscriptions.Options{Subscribable: v.Subscribable, MaxURIs: opts.MaxSubscriptions},
	})
	return s, nil
}

// Ready is closed when the vault can be served.
func (s *Server) Ready() <-chan struct{} { return s.vault.Ready() }

// Vault is what is served.
func (s *Server) Vault() *Vault { return s.vault }

// Run keeps the vault in line with its folder and tells clients, until ctx ends, and
// returns its cause. It is called once.
func (s *Server) Run(ctx context.Context) error {
	return s.vault.Run(ctx, Listener{
		Subscribed: s.Subscriptions().Subscribed,
		Updated:    s.Updated,
		Listed: func(notes []json.RawMessage) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.notes = notes
			s.list()
		},
	})
}

// Offer lists tools and prompts beside the vault's own, in place of those offered
// before. The caller must not write to them any more.
func (s *Server) Offer(tools, prompts []json.RawMessage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.tools, s.prompts = tools, prompts
	s.list()
}

// list must be called with s.mu held.
func (s *Server) list() {
	s.SetCatalog(serve.Catalog{
		Tools: append(tools(), s.tools...), Prompts: s.prompts,
		Resources: append(resources(), s.notes...), Templates: templates(),
	})
}

// Close ends every connection, then the vault. It is called once, after Run.
func (s *Server) Close() error {
	s.Server.Close()
	return s.vault.Close()
}

func (s *Server) readResource(_ context.Context, r *serve.Request) (json.RawMessage, error) {
	if r.URI() == "" {
		return nil, refuse("Resource URI cannot be empty")
	}
	c, err := s.vault.Read(r.URI())
	if err != nil {
		return nil, wireError(err)
	}
	type contents struct {
		URI  string `json:"uri"`
		MIME string `json:"mimeType"`
		Text string `json:"text"`
	}
	return encode(map[string]any{"contents": []contents{{r.URI(), c.MIMEType, c.Text}}}), nil
}

// wireError is how a client is told.
func wireError(err error) error {
	if errors.Is(err, ErrNotFound) {
		return serve.ErrNotFound
	}
	if bad, ok := errors.AsType[*uriError](err); ok {
		return refuse(bad.Error())
	}
	return err
}

func refuse(text string) error {
	return &serve.Error{Code: serve.CodeInvalidParams, Message: text}
}

// complete gives paths for the templates.
func (s *Server) complete(_ context.Context, r *serve.Request) (json.RawMessage, error) {
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
		return nil, refuse("ref and argument are needed")
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

func (s *Server) callTool(ctx context.Context, r *serve.Request) (json.RawMessage, error) {
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
	return nil, fmt.Errorf("%w: tool %q", serve.ErrNotFound, r.Name())
}

// failedTool tells the model what it can mend, and the client the rest.
func failedTool(ctx context.Context, err error) (json.RawMessage, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if errors.Is(err, ErrInvalid) || errors.Is(err, ErrNotFound) {
		return toolError(err.Error()), nil
	}
	return nil, err
}
