package engine

import (
	"slices"
	"strings"
	"sync"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// texts stores the texts of resources beside the log, except those that contain a secret of
// their server's config.
type texts struct {
	contents journal.Contents

	mu      sync.Mutex
	secrets map[string][]string // by server
}

// apply adds the secrets of a config: a text that contains one is not stored. Those of servers
// that left the config are kept, since their last events may still be on their way.
func (t *texts) apply(cfg *config.Config) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range cfg.Servers {
		srv := &cfg.Servers[i]
		for _, value := range srv.Confidential() {
			if !slices.Contains(t.secrets[srv.ID], value) {
				t.secrets[srv.ID] = append(t.secrets[srv.ID], value)
			}
		}
	}
}

// put stores a text, which may be nil.
func (t *texts) put(server string, d catalog.Digest, text *string) {
	if text == nil || d.IsZero() {
		return
	}
	t.mu.Lock()
	secrets := t.secrets[server]
	t.mu.Unlock()
	if slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(*text, s) }) {
		return
	}
	t.contents.Put(d, *text)
}

// putEvent stores the texts of an event.
func (t *texts) putEvent(e *event.Event) {
	if p, ok := e.Payload.(event.ResourceUpdated); ok {
		t.put(e.ServerID, p.PreviousDigest, p.PreviousText)
		t.put(e.ServerID, p.Digest, p.Text)
	}
}
