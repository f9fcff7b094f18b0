package mcpevents

import (
	"bytes"
	"encoding/json"
	"math"
	"time"

	"github.com/mcptrack/mcptrack/core/mcpserver"
)

// params are the members of the parameters of a request. Names are case-sensitive;
// core/mcpserver has refused repeated ones at the top level.
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

// text returns a string; nil if it is absent or null.
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

// number returns a number that is not negative; nil if it is absent or null.
func (p params) number(name string) (*float64, error) {
	raw, ok := p[name]
	if !ok || string(raw) == "null" {
		return nil, nil
	}
	var n float64
	if json.Unmarshal(raw, &n) != nil || n < 0 {
		return nil, Invalid(name + " must be a number that is not negative")
	}
	return &n, nil
}

// Query holds the parameters that events/poll, events/stream and events/subscribe have in
// common.
type Query struct {
	Filter Filter
	// Arguments are the arguments in canonical form: equal arguments that are written
	// differently have the same form.
	Arguments []byte
	// Cursor is the position after which events are asked for; nil: from now on.
	Cursor *string
	// MaxAge bounds the age of the events that come after a cursor; 0: no bound.
	MaxAge time.Duration
	// Delivery and TTL are the members "delivery" and "ttlMs" as the client sent them, nil if
	// it did not.
	Delivery, TTL json.RawMessage
}

// ParseQuery reads and checks the parameters of a request.
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

// canonical returns a JSON value with sorted keys and without white space. Numbers keep
// their digits.
func canonical(raw json.RawMessage) ([]byte, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return json.Marshal(v)
}
