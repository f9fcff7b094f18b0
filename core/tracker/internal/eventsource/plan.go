package eventsource

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// The event types that mcptrack offers as a server (see core/mcpevents).
const (
	ownUpdated = "resource.updated"
	ownLists   = "list.changed"
	ownStates  = "server.state"
)

const (
	maxSubscriptions = 200
	// streamsHTTP limits the number of streams to a server over HTTP, where each stream may need
	// its own connection. streamsElse limits the streams over other transports, because servers
	// also limit them.
	streamsHTTP = 8
	streamsElse = 32
)

// plan describes one subscription to be made.
type plan struct {
	name      string
	arguments json.RawMessage
	about     about
	uri       string // location of the URI for aboutMapped: see [config.EventType]
	modes     []mcp.DeliveryMode
}

// about describes what the events of a type concern.
type about uint8

const (
	aboutResource about = iota // a resource, whose URI is in data.uri
	aboutList                  // a list, which is named in data.list
	aboutMapped                // a resource, whose location in the data is set in the config
	aboutOther                 // the events concern nothing that is tracked
)

func (p plan) coverage() Coverage {
	return Coverage{Resources: p.about == aboutResource || p.about == aboutMapped, Lists: p.about == aboutList}
}

// key returns a key that identifies the subscription across sessions.
func (p plan) key() string {
	args := bytes.TrimSpace(p.arguments)
	if len(args) == 0 || string(args) == "{}" {
		return p.name
	}
	sum := sha256.Sum256(args)
	return p.name + "#" + hex.EncodeToString(sum[:8])
}

// plans returns the subscriptions that the config requests and the server offers, and the event
// names in the config that the server does not offer.
func plans(types []mcp.EventType, want config.Events) (out []plan, unknown []string) {
	if want.Off {
		return nil, nil
	}
	named := map[string]bool{}
	for _, t := range want.Types {
		i := slices.IndexFunc(types, func(o mcp.EventType) bool { return o.Name == t.Name })
		if i < 0 {
			unknown = append(unknown, t.Name)
			continue
		}
		named[t.Name] = true
		p := plan{name: t.Name, arguments: t.Arguments, uri: t.URI, about: aboutMapped, modes: types[i].Delivery}
		if p.uri == "" {
			p.about = aboutOther
			if own, ok := ownType(types[i]); ok {
				p.about = own
			}
		}
		out = append(out, p)
	}
	for _, t := range types {
		own, ok := ownType(t)
		if named[t.Name] || !ok && !want.All || own == aboutOther && !want.All {
			continue
		}
		if !ok {
			own = aboutOther
		}
		out = append(out, plan{name: t.Name, about: own, modes: t.Delivery})
	}
	seen := map[string]bool{}
	out = slices.DeleteFunc(out, func(p plan) bool {
		again := seen[p.key()]
		seen[p.key()] = true
		return again
	})
	return out[:min(len(out), maxSubscriptions)], unknown
}

// ownType reports whether mcptrack itself offers events of this type, and what they concern. It
// checks both the name and the schema, because another server may use the same name.
func ownType(t mcp.EventType) (about, bool) {
	needs, what := "", aboutOther
	switch t.Name {
	case ownUpdated:
		needs, what = "uri", aboutResource
	case ownLists:
		needs, what = "list", aboutList
	case ownStates:
		needs = "state"
	default:
		return aboutOther, false
	}
	var payload struct {
		Required []string `json:"required"`
	}
	_ = json.Unmarshal(t.PayloadSchema, &payload) // a schema of any other form has no required members
	return what, slices.Contains(payload.Required, "server") && slices.Contains(payload.Required, needs)
}

// mode selects the delivery mode: the mode set in the config if possible, and otherwise push, poll
// or webhook, in this order. streams is the number of further streams that may be opened; receiver
// reports whether webhooks can be received. It returns an empty mode if none is possible.
func (p plan) mode(wanted config.EventDelivery, streams int, receiver bool) mcp.DeliveryMode {
	for _, m := range []mcp.DeliveryMode{mcp.DeliveryMode(wanted), mcp.DeliverPush, mcp.DeliverPoll, mcp.DeliverWebhook} {
		if slices.Contains(p.modes, m) && (m != mcp.DeliverPush || streams > 0) && (m != mcp.DeliverWebhook || receiver) {
			return m
		}
	}
	return ""
}

// pointer returns the values that a JSON Pointer (RFC 6901) refers to: a string, or the strings in
// an array.
func pointer(data json.RawMessage, path string) []string {
	var v any
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	if dec.Decode(&v) != nil {
		return nil
	}
	v, _ = catalog.At(v, path)
	switch at := v.(type) {
	case string:
		return []string{at}
	case []any:
		var out []string
		for _, one := range at {
			if s, ok := one.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}
