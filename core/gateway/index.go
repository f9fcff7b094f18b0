package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/gateway/capindex"
	"github.com/mcptrack/mcptrack/core/internal/wake"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// Index serves a capability index as resources and a search tool of the gateway, and notifies
// subscribers when the index changes. A nil Index serves nothing. Its methods are safe for
// concurrent use.
type Index struct {
	index *capindex.Index
	// dirty wakes Run. Changed sends to it.
	dirty wake.Channel
}

// NewIndex returns a new Index.
func NewIndex(opts capindex.Options) (*Index, error) {
	x, err := capindex.New(opts)
	if err != nil {
		return nil, err
	}
	return &Index{index: x, dirty: wake.New()}, nil
}

// Local returns the resources and tools through which the gateway serves the index.
func (x *Index) Local() Local {
	if x == nil {
		return Local{}
	}
	return Local{Tools: []LocalTool{{Descriptor: capindex.SearchTool(), Call: x.search}}, Resources: x.index.Resources(), ReadResource: x.read}
}

func (x *Index) search(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	var params struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(r.Params, &params); err != nil {
		return nil, &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: "the parameters are not an object"}
	}
	return x.index.Search(ctx, params.Arguments)
}

func (x *Index) read(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	d, err := x.index.Read(ctx, r.URI())
	if errors.Is(err, capindex.ErrNotFound) {
		return nil, mcpserver.ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	result := map[string]any{"contents": []map[string]string{{"uri": d.URI, "mimeType": d.MimeType, "text": d.Text}}}
	if r.Modern() {
		result["ttlMs"], result["cacheScope"] = d.TTL().Milliseconds(), "private"
	}
	return json.Marshal(result)
}

// Changed discards the generated documents immediately and wakes Run.
func (x *Index) Changed() {
	if x == nil {
		return
	}
	x.index.Invalidate()
	x.dirty.Send()
}

// indexDebounce is how long Run waits after a change before it compares the index with its previous
// content, so that a burst of changes causes only one comparison.
const indexDebounce = time.Second

// Run notifies subscribers whenever the index has changed, until ctx ends. server is the server
// that they are connected to.
func (x *Index) Run(ctx context.Context, server *mcpserver.Server) {
	if x == nil {
		return
	}
	for {
		select {
		case <-x.dirty:
		case <-ctx.Done():
			return
		}
		if !backoff.Sleep(ctx, indexDebounce) {
			return
		}
		if uris, err := x.index.Changed(ctx); err == nil {
			server.Updated(uris...)
		}
	}
}
