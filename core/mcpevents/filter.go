package mcpevents

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mcptrack/mcptrack/core/glob"
	"github.com/mcptrack/mcptrack/core/printable"
)

// maxArguments bounds the arguments of a subscription, in bytes.
const maxArguments = 4 << 10

var errUnknownType = errors.New("unknown type of events")

// Filter says which events a subscription gets. It is a value that does not change.
type Filter struct {
	name        string
	server, uri string   // globs; "" matches all
	words       []string // lists or states, by the type of the events; nil matches all
	changedOnly bool
}

// Name is the type of the events that the subscription gets.
func (f *Filter) Name() string { return f.name }

// ParseFilter reads the arguments of a subscription to the type of events called name. The
// arguments may be nil or null, which means none. Equal arguments that are written differently
// have the same canonicalForm.
func ParseFilter(name string, arguments json.RawMessage) (f Filter, canonicalForm []byte, err error) {
	f = Filter{name: name}
	known := map[string][]string{ResourceUpdated: {"server", "uri", "changedOnly"}, ListChanged: {"server", "lists"}, ServerState: {"server", "states"}}[name]
	if known == nil {
		return f, nil, errUnknownType
	}
	if len(arguments) > maxArguments {
		return f, nil, fmt.Errorf("arguments have more than %d bytes", maxArguments)
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
		into := map[string]*string{"server": &f.server, "uri": &f.uri}[member]
		if json.Unmarshal(raw, into) != nil || string(raw) == "null" {
			return fmt.Errorf("%s must be a string", member)
		}
		if *into != "" && !glob.Valid(*into) {
			return fmt.Errorf("invalid glob %q", printable.Line(*into, 200))
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
			if member == "lists" && !slices.Contains([]string{"resources", "templates", "prompts", "tools"}, w) {
				return fmt.Errorf("unknown list %q", printable.Line(w, 64))
			}
		}
		f.words = words
	}
	return nil
}

// Matches reports whether the subscription gets the event.
func (f *Filter) Matches(o *Occurrence) bool {
	if o == nil || o.Name != f.name || !matches(f.server, o.Server) {
		return false
	}
	switch f.name {
	case ResourceUpdated:
		if f.changedOnly && !o.News() {
			return false
		}
		return f.uri == "" || matches(f.uri, o.exported) || matches(f.uri, o.uri)
	default:
		return f.words == nil || slices.Contains(f.words, o.word)
	}
}

func matches(g, s string) bool { return g == "" || glob.MatchURI(g, s) }
