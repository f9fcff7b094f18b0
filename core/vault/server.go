package vault

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// ServerOptions configure a vault and its server.
type ServerOptions struct {
	Vault Options
	// Name, Title, Version and Instructions are sent to clients when they connect; by
	// default "mcptrack-vault", "Vault", "dev" and a line about notes.
	Name, Title, Version, Instructions string
	// Principal and SessionDir are as in [mcpserver.Options].
	Principal  func(*http.Request) string
	SessionDir string
	// MaxSubscriptions limits the subscribed resources of one client; 10,000 by default.
	MaxSubscriptions int
	// CallTool answers calls of the tools that [Server.Offer] added, and GetPrompt requests
	// for the prompts that it added. nil: there are none.
	CallTool, GetPrompt mcpserver.Func
}

// Server serves a vault over MCP. Make it with NewServer, call Run, and once it is
// Ready connect clients with ServeIO and ServeHTTP of the embedded server.
type Server struct {
	*mcpserver.Server
	vault *Vault
	other mcpserver.Func // answers calls of tools that Offer added; nil: there are none

	mu                    sync.Mutex        // guards what follows
	notes, tools, prompts []json.RawMessage // parts of the catalog; tools are those of Offer
}

// NewServer opens a vault and a server for it. Errors of options are of type
// *[OptionError].
func NewServer(opts ServerOptions) (*Server, error) {
	v, err := Open(opts.Vault)
	if err != nil {
		return nil, err
	}
	s := &Server{vault: v, other: opts.CallTool}
	s.Server = mcpserver.New(mcpserver.Options{
		Name: cmp.Or(opts.Name, "mcptrack-vault"), Title: cmp.Or(opts.Title, "Vault"), Version: opts.Version,
		Instructions:  cmp.Or(opts.Instructions, "Notes in Markdown. Subscribe to vault://recent, to a note or to a folder to be notified of changes."),
		Principal:     opts.Principal,
		SessionDir:    opts.SessionDir,
		Logger:        opts.Vault.Logger,
		CallTool:      s.callTool,
		GetPrompt:     opts.GetPrompt,
		ReadResource:  s.readResource,
		Complete:      s.complete,
		Subscriptions: subscriptions.Options{Subscribable: v.Subscribable, MaxURIs: opts.MaxSubscriptions},
	})
	return s, nil
}

// Ready returns a channel that is closed when the vault can be served.
func (s *Server) Ready() <-chan struct{} { return s.vault.Ready() }

// Vault returns the served vault.
func (s *Server) Vault() *Vault { return s.vault }

// Run keeps the vault in sync with its folder and notifies clients until ctx ends,
// then returns the cause of ctx. It is called once.
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

// Offer replaces the tools and prompts that are listed in addition to the vault's
// own. The caller must not modify them afterwards.
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
		Resources: append(resources(), s.notes...), Templates: templates(),
	})
}

// Close ends every connection, then the vault. It is called once, after Run.
func (s *Server) Close() error {
	s.Server.Close()
	return s.vault.Close()
}

func (s *Server) readResource(_ context.Context, r *mcpserver.Request) (json.RawMessage, error) {
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

// wireError converts an error of the vault to one that clients are sent.
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

// complete completes paths for the templates.
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
