package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/lock"
)

// recorder is the log of the tracker: it stores what this process must store, and texts alongside.
type recorder struct {
	duty  func(server string) (follow bool, to journal.Recorder) // [Engine.duty]
	texts *texts

	listed   func(journal.ListName, catalog.List) // nil if nobody needs it
	exported func(*event.Event) map[string]string // nil if nothing is exported
}

func (r *recorder) Append(e *event.Event) error {
	if name, list, ok := journal.KnownList(e); ok && r.listed != nil {
		r.listed(name, list)
	}
	_, to := r.duty(e.ServerID)
	if to == nil {
		return nil
	}
	r.texts.putEvent(e) // before the event, so that a log that stores both in one step has the text
	if r.exported != nil {
		named := *e
		named.Exported = r.exported(e)
		e = &named
	}
	return to.Append(e)
}

func (r *recorder) Remember(at journal.ResourceID, st journal.State) error {
	_, to := r.duty(at.ServerID)
	if to == nil {
		return nil
	}
	r.texts.put(at.ServerID, st.Digest, st.Text)
	return to.Remember(at, st)
}

func (r *recorder) RememberList(name journal.ListName, list catalog.List) error {
	if r.listed != nil {
		r.listed(name, list)
	}
	_, to := r.duty(name.ServerID)
	if to == nil {
		return nil
	}
	r.texts.putList(name.ServerID, list, list.Keys())
	return to.RememberList(name, list)
}

// texts stores the texts of resources, and the definitions of list items and instructions, alongside
// the log. It redacts the secrets of the server's config in definitions, as a review does, and leaves out
// resources that contain one.
type texts struct {
	contents journal.Contents

	mu      sync.Mutex
	secrets map[string][]string // secret values by server id, longer ones first
}

// apply adds the secrets in a config. The secrets of servers that were removed from the config are
// kept, because their last events may not have been recorded yet.
func (t *texts) apply(cfg *config.Config) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range cfg.Servers {
		srv := &cfg.Servers[i]
		all := slices.Concat(t.secrets[srv.ID], srv.Confidential()) // a copy, because put reads without the lock
		slices.SortFunc(all, func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
		t.secrets[srv.ID] = slices.Compact(all)
	}
}

// put stores a text, unless it is nil.
func (t *texts) put(server string, d catalog.Digest, text *string) {
	if text == nil || d.IsZero() {
		return
	}
	if !t.secretIn(server, *text) {
		t.contents.Put(d, *text)
	}
}

func (t *texts) putSkillFile(server string, d catalog.Digest, text string) { t.put(server, d, &text) }

// secretIn reports whether a text contains a secret of a server.
func (t *texts) secretIn(server, text string) bool {
	t.mu.Lock()
	secrets := t.secrets[server]
	t.mu.Unlock()
	return slices.ContainsFunc(secrets, func(s string) bool { return strings.Contains(text, s) })
}

// putDefinition stores a definition, with its secrets redacted.
func (t *texts) putDefinition(server string, d catalog.Digest, definition []byte) {
	t.mu.Lock()
	secrets := t.secrets[server]
	t.mu.Unlock()
	it := lock.Item{Definition: definition}
	if len(secrets) > 0 {
		it.Redact(secrets)
	}
	text := string(it.Definition)
	t.put(server, d, &text)
}

// putEvent stores the texts and definitions contained in an event. The definitions before a change to a
// list are normally stored already, but may have been removed since.
func (t *texts) putEvent(e *event.Event) {
	switch p := e.Payload.(type) {
	case event.ResourceUpdated:
		t.put(e.ServerID, p.PreviousDigest, p.PreviousText)
		t.put(e.ServerID, p.Digest, p.Text)
	case event.ListChanged:
		switch {
		case p.Items == nil:
		case p.Before == nil: // this process lists the items for the first time
			t.putList(e.ServerID, *p.Items, p.Items.Keys())
		default:
			t.putList(e.ServerID, p.Before, slices.Concat(p.Changed, p.Removed))
			t.putList(e.ServerID, *p.Items, slices.Concat(p.Changed, p.Added))
		}
	case event.ServerState:
		if p.Instructions != "" {
			t.putDefinition(e.ServerID, p.InstructionsDigest, []byte(p.Instructions))
		}
	}
}

// maxDefinitions limits the total size, in bytes, of the definitions of one list that are stored at a
// time. A list that is larger would displace the texts of other servers whenever its server connects.
const maxDefinitions = 4 << 20

func (t *texts) putList(server string, list catalog.List, keys []string) {
	size := 0
	for _, key := range keys {
		it, ok := list.Get(key)
		if size += len(it.Raw); size > maxDefinitions {
			return
		}
		if ok && len(it.Raw) > 0 {
			t.putDefinition(server, it.Digest, it.Raw)
		}
	}
}

// storedStates reads the states of all servers. It retries if that fails, because a cluster may be electing
// leaders.
func storedStates(ctx context.Context, log journal.Log) (journal.States, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	retry := backoff.New(100*time.Millisecond, 2*time.Second)
	for {
		states, err := log.States(ctx, "")
		if err == nil || errors.Is(err, journal.ErrClosed) || !backoff.Sleep(ctx, retry.Next()) {
			return states, err
		}
	}
}
