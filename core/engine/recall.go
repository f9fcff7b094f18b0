package engine

import (
	"context"
	"encoding/json"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/journal"
)

// maxRecall limits how long the log is read for one server.
const maxRecall = 2 * time.Second

// Recall reads from the log what a server last offered, so that a tracker that connects on demand need
// not connect the server to know it. It is called before the server is applied, and does nothing if the
// tracker knows the server or the log lacks a part.
func (e *Engine) Recall(ctx context.Context, server string) {
	said, _ := e.tracker.Stored(server, journal.Handshake)
	if len(said) != 1 || e.tracker.Knows(server) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, maxRecall)
	defer cancel()
	lists := map[catalog.Kind]catalog.List{}
	for _, k := range catalog.Kinds() {
		stored, _ := e.tracker.Stored(server, k)
		list := make(catalog.List, len(stored))
		for i, it := range stored {
			var err error
			if list[i], err = catalog.NewItem(k, e.definition(ctx, it.Digest)); err != nil {
				return
			}
		}
		lists[k] = list
	}
	e.tracker.Recall(server, e.definition(ctx, said[0].Digest), lists)
}

// definition returns a stored definition exactly as it was, or nil: secrets may have been redacted in it.
func (e *Engine) definition(ctx context.Context, d catalog.Digest) json.RawMessage {
	text, _, err := e.log.Contents().Get(ctx, d)
	if is, bad := catalog.Fingerprint(json.RawMessage(text)); err != nil || bad != nil || is != d {
		return nil
	}
	return json.RawMessage(text)
}
