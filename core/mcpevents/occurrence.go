package mcpevents

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/printable"
)

const (
	maxNames = 50   // maximum names of each kind in a list.changed event
	maxURI   = 2048 // maximum bytes of a URI that is sent to clients
	maxText  = 200  // maximum characters of a text from a server
)

// Occurrence is one event in the form that clients receive. It is shared and immutable.
type Occurrence struct {
	ID     string // id of the event in the log
	Seq    uint64 // sequence number in ID
	Name   string // event type
	Server string
	Time   time.Time // when the event occurred
	Trace  string    // see [event.Event.Trace]

	uri, exported string       // a resource's URI at its server and at this endpoint; otherwise empty
	changed       *bool        // whether a resource's content changed; nil if unknown
	word          string       // the list that changed, or the new state of a server or of a lock's item; empty for resources
	items         []named      // the list items that data mentions
	kind          catalog.Kind // of items
	data          []byte       // returned by Data
	body          []byte       // the event as JSON without the closing brace
}

// named is a list item: its key at its server, and its name or URI at this endpoint.
type named struct{ key, exported string }

// Body returns the event together with a cursor, in the form that webhooks receive.
func (o *Occurrence) Body(cursor string) []byte {
	b := make([]byte, 0, len(o.body)+len(cursor)+16)
	return append(append(append(append(b, o.body...), `,"cursor":"`...), cursor...), `"}`...)
}

// Data returns the event's data, a JSON object.
func (o *Occurrence) Data() json.RawMessage { return o.data }

// URI returns the resource's URI at its server, or an empty string if the event does not concern a
// resource.
func (o *Occurrence) URI() string { return o.uri }

// Exported returns the resource's URI at this endpoint, or an empty string if the event does not
// concern a resource.
func (o *Occurrence) Exported() string { return o.exported }

// MayHaveChanged returns false only if the event announces a resource whose content is known to be
// unchanged.
func (o *Occurrence) MayHaveChanged() bool { return o.changed == nil || *o.changed }

// ListOrState returns the list that changed, or the new state of a server or of an item of the lock. It
// returns an empty string for resource events.
func (o *Occurrence) ListOrState() string { return o.word }

// Type returns the event's type in the log. It is Name, except for lists, which have types of their own.
func (o *Occurrence) Type() event.Type {
	if o.Name == ListChanged {
		return event.ListChanged{List: o.kind}.Type()
	}
	return event.Type(o.Name)
}

// Scope determines which servers and items the clients of this endpoint may see. The zero value
// shows everything under its original name. The functions are called often and must not block.
type Scope struct {
	// Server reports whether clients may see events about the server with this id.
	Server func(id string) bool
	// Item reports whether clients may see an item of a server, and returns its name or URI at this
	// endpoint. stored is that name or URI as recorded in the event; it takes precedence unless it
	// is empty. The item may no longer be listed.
	Item func(server string, k catalog.Kind, key, stored string) (exported string, ok bool)
	// Unapproved is like Item, but the user need not have approved the item. If it is not nil, models may
	// see only what the user approved, so no event names an item that was not in the lock.
	Unapproved func(server string, k catalog.Kind, key, stored string) (exported string, ok bool)
}

func (s Scope) server(id string) bool { return s.Server == nil || s.Server(id) }

func (s Scope) item(server string, k catalog.Kind, key, stored string) (string, bool) {
	return s.itemOf(s.Item, server, k, key, stored)
}

// unapproved is like item, for events about items that the user need not have approved.
func (s Scope) unapproved(server string, k catalog.Kind, key, stored string) (string, bool) {
	if s.Unapproved == nil {
		return s.item(server, k, key, stored)
	}
	return s.itemOf(s.Unapproved, server, k, key, stored)
}

func (s Scope) itemOf(of func(string, catalog.Kind, string, string) (string, bool), server string, k catalog.Kind, key, stored string) (string, bool) {
	if len(key) > maxURI || printable.Line(key, 0) != key {
		return "", false
	}
	if of == nil {
		return key, true
	}
	return of(server, k, key, stored)
}

// stored returns the exported name or URI of an item as recorded in the event, or an empty string
// if the event contains none.
func stored(ev *event.Event, key string) string {
	if ev.Exported == nil {
		return ""
	}
	name := cmp.Or(ev.Exported[key], key)
	if printable.Line(name, 0) != name {
		return ""
	}
	return name
}

// Shows reports whether the event may still be sent, because the configuration may have changed
// since the event was read.
func (s Scope) Shows(o *Occurrence) bool {
	if !s.server(o.Server) {
		return false
	}
	switch o.Name {
	case ResourceUpdated:
		_, ok := s.item(o.Server, catalog.Resources, o.uri, o.exported)
		return ok
	case ListChanged:
		return !slices.ContainsFunc(o.items, func(it named) bool {
			_, ok := s.item(o.Server, o.kind, it.key, it.exported)
			return !ok
		})
	case LockDrift:
		return !slices.ContainsFunc(o.items, func(it named) bool {
			_, ok := s.unapproved(o.Server, o.kind, it.key, it.exported)
			return !ok
		})
	}
	return true
}

// occurrence converts a log entry to an event for clients. o is nil if there is nothing to send for
// the entry. gap reports that the entry marks a gap in the log.
func (s Scope) occurrence(e *journal.Entry) (o *Occurrence, gap bool) {
	if e.Gap != nil {
		return nil, true
	}
	ev, err := e.Event()
	if err != nil {
		return nil, false // written by a newer version of mcptrack
	}
	if _, gap = ev.Payload.(event.Gap); gap {
		return nil, true
	}
	if ev.ServerID == "" || !s.server(ev.ServerID) {
		return nil, false
	}
	o = &Occurrence{ID: e.ID, Seq: e.Seq, Server: ev.ServerID, Time: ev.Timestamp, Trace: ev.Trace}
	var data any
	switch p := ev.Payload.(type) {
	case event.ResourceUpdated:
		data = s.updated(o, &ev, p)
	case event.ListChanged:
		data = s.list(o, &ev, p)
	case event.LockDrift:
		data = s.drift(o, &ev, p)
	case event.ServerState:
		o.Name, o.word = ServerState, string(p.State)
		data = struct {
			Server   string `json:"server"`
			State    string `json:"state"`
			Previous string `json:"previous,omitempty"`
			Reason   string `json:"reason,omitempty"`
		}{ev.ServerID, string(p.State), string(p.Previous), reason(p.Reason)}
	}
	if data == nil {
		return nil, false
	}
	if o.data, err = printable.Marshal(data); err != nil {
		return nil, false
	}
	b := append([]byte(`{"eventId":"`), e.ID...)
	b = append(append(append(b, `","name":"`...), o.Name...), `","timestamp":"`...)
	b = ev.Timestamp.UTC().AppendFormat(b, event.TimeFormat)
	o.body = append(append(b, `","data":`...), o.data...)
	return o, false
}

func (s Scope) updated(o *Occurrence, ev *event.Event, p event.ResourceUpdated) any {
	var ok bool
	if o.exported, ok = s.item(ev.ServerID, catalog.Resources, ev.ResourceURI, stored(ev, ev.ResourceURI)); !ok {
		return nil
	}
	o.Name, o.uri, o.changed = ResourceUpdated, ev.ResourceURI, p.Changed
	digest := func(d catalog.Digest) string {
		if d.IsZero() {
			return ""
		}
		return d.String()
	}
	return struct {
		Server         string `json:"server"`
		URI            string `json:"uri"`
		Changed        *bool  `json:"changed,omitempty"`
		Cause          string `json:"cause"`
		Name           string `json:"name,omitempty"`
		MimeType       string `json:"mimeType,omitempty"`
		Size           *int64 `json:"size,omitempty"`
		Digest         string `json:"digest,omitempty"`
		PreviousDigest string `json:"previousDigest,omitempty"`
	}{ev.ServerID, o.exported, p.Changed, string(cmp.Or(ev.Cause, event.CauseNotify)), printable.Line(p.Name, maxText),
		printable.Line(p.MimeType, maxText), p.Size, digest(p.Digest), digest(p.PreviousDigest)}
}

func (s Scope) list(o *Occurrence, ev *event.Event, p event.ListChanged) any {
	if p.Error != "" {
		return nil // the list is unchanged
	}
	more := map[string]int{}
	names := func(what string, keys []string) []string {
		var out []string
		for _, key := range keys {
			exported, ok := s.item(o.Server, p.List, key, stored(ev, key))
			switch {
			case !ok:
			case len(out) == maxNames:
				more[what]++
			default:
				out = append(out, printable.Line(exported, maxText))
				o.items = append(o.items, named{key, exported})
			}
		}
		slices.Sort(out)
		return out
	}
	o.Name, o.word, o.kind = ListChanged, string(p.List), p.List
	data := struct {
		Server  string         `json:"server"`
		List    string         `json:"list"`
		Added   []string       `json:"added,omitempty"`
		Removed []string       `json:"removed,omitempty"`
		Changed []string       `json:"changed,omitempty"`
		More    map[string]int `json:"more,omitempty"`
	}{o.Server, string(p.List), names("added", p.Added), names("removed", p.Removed), names("changed", p.Changed), more}
	if len(data.Added)+len(data.Removed)+len(data.Changed) == 0 {
		return nil // only hidden items changed
	}
	return data
}

// drift returns the data of a difference from the lock, or nil if clients may not receive it.
func (s Scope) drift(o *Occurrence, ev *event.Event, p event.LockDrift) any {
	key := p.Key()
	name := key
	if o.kind = kindOf(p.Section); o.kind != "" {
		exported, ok := s.unapproved(o.Server, o.kind, key, stored(ev, key))
		switch {
		case ok:
			name, o.items = exported, []named{{key, exported}}
		case s.Item != nil:
			return nil
		}
		if s.Unapproved != nil && p.OldHash == "" && p.Change != event.DriftApproved {
			name = ""
		}
	}
	o.Name, o.word = LockDrift, string(p.Change)
	var classes []string
	for _, c := range p.Classes {
		classes = append(classes, printable.Line(c.Name, maxText))
	}
	return struct {
		Server   string   `json:"server"`
		State    string   `json:"state"`
		Section  string   `json:"section,omitempty"`
		Name     string   `json:"name,omitempty"`
		Classes  []string `json:"classes,omitempty"`
		Severity string   `json:"severity,omitempty"`
		Action   string   `json:"action,omitempty"`
		OldHash  string   `json:"oldHash,omitempty"`
		NewHash  string   `json:"newHash,omitempty"`
		Reason   string   `json:"reason,omitempty"`
	}{o.Server, o.word, printable.Line(p.Section, maxText), printable.Line(name, maxText), classes, printable.Line(p.Severity, maxText), printable.Line(p.Action, maxText),
		printable.Line(p.OldHash, maxText), printable.Line(p.NewHash, maxText), printable.Line(p.Reason, maxText)}
}

// kindOf returns the kind of list that a section of a lock corresponds to, or "" if there is none.
func kindOf(section string) catalog.Kind {
	if section == "contents" {
		return catalog.Resources
	}
	if k := catalog.Kind(section); slices.Contains(catalog.Kinds(), k) {
		return k
	}
	return ""
}

// reason returns the reason for a server's state in a form suitable for clients, without process
// names.
func reason(s string) string {
	if strings.HasPrefix(s, "followed by ") {
		return "handover"
	}
	return printable.Line(s, maxText)
}
