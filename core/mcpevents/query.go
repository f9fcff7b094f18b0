package mcpevents

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
)

// params contains the members of a request's parameters by case-sensitive name. core/mcpserver has
// already rejected duplicates at the top level.
type params map[string]json.RawMessage

func parseMembers(raw json.RawMessage) (params, error) {
	if len(raw) == 0 {
		return params{}, nil
	}
	var p params
	if err := json.Unmarshal(raw, &p); err != nil || p == nil {
		return nil, Invalid("the parameters must be an object")
	}
	return p, nil
}

// text returns a string parameter, or nil if it is absent or null.
func (p params) text(name string) (*string, error) {
	raw, ok := p[name]
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return nil, Invalid(name + " must be a string")
	}
	return &s, nil
}

// number returns a non-negative number parameter, or nil if it is absent or null.
func (p params) number(name string) (*float64, error) {
	raw, ok := p[name]
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	var n float64
	if json.Unmarshal(raw, &n) != nil || n < 0 {
		return nil, Invalid(name + " must be a non-negative number")
	}
	return &n, nil
}

// Query contains the parameters common to events/poll, events/stream and events/subscribe.
type Query struct {
	Filter Filter
	// Arguments contains the arguments in canonical JSON, so that equal arguments have the same
	// form no matter how the client wrote them.
	Arguments []byte
	// Cursor is the position after which events are reported. Nil means from now on.
	Cursor *string
	// MaxAge limits the age of the past events that a cursor may request. Zero means no limit.
	MaxAge time.Duration
	// Delivery and TTL contain the members "delivery" and "ttlMs" as sent by the client, or nil if
	// absent.
	Delivery, TTL json.RawMessage
}

// ParseQuery parses and validates the parameters of a request.
func ParseQuery(r *mcpserver.Request) (Query, error) {
	p, err := parseMembers(r.Params)
	if err != nil {
		return Query{}, err
	}
	q := Query{Delivery: p["delivery"], TTL: p["ttlMs"]}
	name, err := p.text("name")
	if err != nil || name == nil {
		return Query{}, Invalid("name must be a string")
	}
	if len(p["arguments"]) > maxArguments {
		return Query{}, Fail(r, ResourceExhausted, map[string]any{"limit": "bytes of arguments", "max": maxArguments})
	}
	if q.Filter, q.Arguments, err = ParseFilter(*name, p["arguments"]); err != nil {
		if err == errUnknownType {
			return Query{}, Fail(r, NotFound, map[string]any{"kind": "event"})
		}
		return Query{}, Invalid(err.Error())
	}
	if q.Cursor, err = p.text("cursor"); err != nil {
		return Query{}, err
	}
	age, err := p.number("maxAgeMs")
	if err != nil {
		return Query{}, err
	}
	if age != nil {
		q.MaxAge = time.Duration(min(max(*age, 1), float64(math.MaxInt64)/2/float64(time.Millisecond))) * time.Millisecond
	}
	return q, nil
}

// canonical returns a JSON value with sorted keys and without white space. Numbers keep their
// original digits.
func canonical(raw json.RawMessage) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}

// maxArguments limits the size of a subscription's arguments in bytes.
const maxArguments = 4 << 10

var errUnknownType = errors.New("unknown event type")

// Filter selects the events for a subscription. It is immutable.
type Filter struct {
	name        string
	server, uri *glob.Matcher // nil matches everything
	words       []string      // lists or states, depending on the event type; nil matches all
	changedOnly bool
}

// Name returns the subscription's event type.
func (f *Filter) Name() string { return f.name }

// ParseFilter parses the arguments of a subscription to the event type name. The arguments may be
// absent (nil) or null. Equal arguments yield the same canonicalForm, no matter how the client
// wrote them.
func ParseFilter(name string, arguments json.RawMessage) (f Filter, canonicalForm []byte, err error) {
	f = Filter{name: name}
	known := map[string][]string{ResourceUpdated: {"server", "uri", "changedOnly"}, ListChanged: {"server", "lists"}, LockDrift: {"server", "states"}, ServerState: {"server", "states"}}[name]
	if known == nil {
		return f, nil, errUnknownType
	}
	if len(arguments) > maxArguments {
		return f, nil, fmt.Errorf("arguments exceed %d bytes", maxArguments)
	}
	f.changedOnly = name == ResourceUpdated
	if len(arguments) == 0 || string(arguments) == "null" {
		return f, []byte("{}"), nil
	}
	var all map[string]json.RawMessage
	if json.Unmarshal(arguments, &all) != nil {
		return f, nil, errors.New("arguments must be an object")
	}
	for member, raw := range all {
		if !slices.Contains(known, member) {
			return f, nil, fmt.Errorf("unknown argument %q", printable.Line(member, 64))
		}
		if err := f.set(member, raw); err != nil {
			return f, nil, err
		}
	}
	canonicalForm, err = canonical(arguments)
	return f, canonicalForm, err
}

func (f *Filter) set(member string, raw json.RawMessage) error {
	switch member {
	case "server", "uri":
		var g string
		if json.Unmarshal(raw, &g) != nil || string(raw) == "null" {
			return fmt.Errorf("%s must be a string", member)
		}
		if g == "" {
			return nil
		}
		if !glob.Valid(g) {
			return fmt.Errorf("invalid glob %q", printable.Line(g, 200))
		}
		if m := glob.NewMatcher(g); member == "server" {
			f.server = m
		} else {
			f.uri = m
		}
	case "changedOnly":
		if json.Unmarshal(raw, &f.changedOnly) != nil || string(raw) == "null" {
			return errors.New("changedOnly must be a boolean")
		}
	case "lists", "states":
		var words []string
		if json.Unmarshal(raw, &words) != nil || words == nil {
			return fmt.Errorf("%s must be an array of strings", member)
		}
		for _, w := range words {
			if member == "lists" && !slices.Contains(catalog.Kinds(), catalog.Kind(w)) {
				return fmt.Errorf("unknown list %q", printable.Line(w, 64))
			}
		}
		f.words = words
	}
	return nil
}

// Matches reports whether the event matches the subscription.
func (f *Filter) Matches(o *Occurrence) bool {
	if o == nil || o.Name != f.name || !matches(f.server, o.Server) {
		return false
	}
	switch f.name {
	case ResourceUpdated:
		if f.changedOnly && !o.MayHaveChanged() {
			return false
		}
		return matches(f.uri, o.exported) || matches(f.uri, o.uri)
	default:
		return f.words == nil || slices.Contains(f.words, o.word)
	}
}

func matches(g *glob.Matcher, s string) bool { return g == nil || g.MatchURI(s) }
