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
	maxNames = 50   // of each kind in a list.changed
	maxURI   = 2048 // bytes of a visible URI
	maxText  = 200  // characters of a server's text
)

// Occurrence is one event as clients get it. It is shared and immutable.
type Occurrence struct {
	ID     string // the event's ID in the log
	Seq    uint64 // the number in ID
	Name   string // its type
	Server string
	Time   time.Time // when it happened

	uri, exported string  // of a resource: at its server, and here; "" for other types
	changed       *bool   // whether the content of a resource changed; nil: unknown
	word          string  // the list that changed, or the new state; "" for resources
	items         []named // the list items that data names
	data          []byte  // what Data returns
	body          []byte  // the event as JSON, without the closing brace
}

// named is an item: its key at its server, and its name or URI here.
type named struct{ key, exported string }

// Body returns the event with a cursor, as a webhook gets it.
func (o *Occurrence) Body(cursor string) []byte {
	b := make([]byte, 0, len(o.body)+len(cursor)+16)
	return append(append(append(append(b, o.body...), `,"cursor":"`...), cursor...), `"}`...)
}

// Data returns the data of the event, a JSON object.
func (o *Occurrence) Data() json.RawMessage { return o.data }

// URI returns the server's own URI of the resource, "" for other events.
func (o *Occurrence) URI() string { return o.uri }

// Exported returns the URI of the resource at this endpoint.
func (o *Occurrence) Exported() string { return o.exported }

// MayHaveChanged is false only for the announcement of a resource whose content is known to be
// unchanged.
func (o *Occurrence) MayHaveChanged() bool { return o.changed == nil || *o.changed }

// ListOrState returns the list that changed or the new state; "" for resources.
func (o *Occurrence) ListOrState() string { return o.word }

// Scope says what clients of this endpoint may see. The zero value shows everything under its own
// name. The functions are called often and must not block.
type Scope struct {
	// Server reports whether events about the server are visible.
	Server func(id string) bool
	// Item reports whether an item of a server is visible, and its name or URI at this endpoint:
	// stored, from the event, unless that is "". The item need not be listed any more.
	Item func(server string, k catalog.Kind, key, stored string) (exported string, ok bool)
}

func (s Scope) server(id string) bool { return s.Server == nil || s.Server(id) }

func (s Scope) item(server string, k catalog.Kind, key, stored string) (string, bool) {
	if len(key) > maxURI || printable.Line(key, 0) != key {
		return "", false
	}
	if s.Item == nil {
		return key, true
	}
	return s.Item(server, k, key, stored)
}

// stored returns the name of an item that the event contains; "" if it contains none.
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

// Shows reports whether the event may still be sent: the config may have changed after the event
// was read.
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
			_, ok := s.item(o.Server, catalog.Kind(o.word), it.key, it.exported)
			return !ok
		})
	}
	return true
}

// occurrence converts an entry of the log. o is nil if clients get nothing for the entry; gap
// means that the entry stands for a gap in the log.
func (s Scope) occurrence(e *journal.Entry) (o *Occurrence, gap bool) {
	if e.Gap != nil {
		return nil, true
	}
	ev, err := e.Event()
	if err != nil {
		return nil, false // written by a newer version of the program
	}
	if _, gap = ev.Payload.(event.Gap); gap {
		return nil, true
	}
	if ev.ServerID == "" || !s.server(ev.ServerID) {
		return nil, false
	}
	o = &Occurrence{ID: e.ID, Seq: e.Seq, Server: ev.ServerID, Time: ev.Timestamp}
	var data any
	switch p := ev.Payload.(type) {
	case event.ResourceUpdated:
		data = s.updated(o, &ev, p)
	case event.ListChanged:
		data = s.list(o, &ev, p)
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
		return nil // the list did not change
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
	o.Name, o.word = ListChanged, string(p.List)
	data := struct {
		Server  string         `json:"server"`
		List    string         `json:"list"`
		Added   []string       `json:"added,omitempty"`
		Removed []string       `json:"removed,omitempty"`
		Changed []string       `json:"changed,omitempty"`
		More    map[string]int `json:"more,omitempty"`
	}{o.Server, string(p.List), names("added", p.Added), names("removed", p.Removed), names("changed", p.Changed), more}
	if len(data.Added)+len(data.Removed)+len(data.Changed) == 0 {
		return nil // only invisible items changed
	}
	return data
}

// reason returns the reason of a server's state for clients, without the names of processes.
func reason(s string) string {
	if strings.HasPrefix(s, "followed by ") {
		return "handover"
	}
	return printable.Line(s, maxText)
}
