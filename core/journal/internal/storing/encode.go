package storing

import (
	"errors"
	"fmt"
	"slices"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// ErrTooLarge is the reason why an event or a state is not stored.
var ErrTooLarge = errors.New("too large for the store")

// Encode returns the stored form of the event, which is its wire form without an id. If that
// exceeds limit bytes, Encode splits the event into several events with the same meaning, or
// removes details if that is impossible. A list of 10,000 URIs, for example, must not stop the log.
// If neither helps, the error matches [ErrTooLarge].
func Encode(e *event.Event, limit int) ([][]byte, error) {
	data, err := journal.Encode(e, "")
	if err != nil {
		return nil, err
	}
	if len(data) <= limit {
		return [][]byte{data}, nil
	}
	var parts [][]byte
	for _, p := range split(e.Payload) {
		part := *e
		part.Payload, part.Exported = p, namesOf(p, e.Exported)
		more, err := Encode(&part, limit)
		if err != nil {
			return nil, err
		}
		parts = append(parts, more...)
	}
	if len(parts) == 0 {
		return nil, fmt.Errorf("event log: %w: %s has %d bytes; at most %d can be stored", ErrTooLarge, e.Type(), len(data), limit)
	}
	return parts, nil
}

// split returns smaller payloads that together mean the same as p, or a payload with fewer details.
// It returns nil if p cannot be made smaller.
func split(p event.Payload) []event.Payload {
	switch p := p.(type) {
	case event.ListChanged:
		if len(p.Added)+len(p.Removed)+len(p.Changed) < 2 {
			if p.Versions == nil && p.Details == nil {
				return nil
			}
			p.Versions, p.Details = nil, nil
			return []event.Payload{p}
		}
		first, second := p, p
		first.Added, second.Added = halves(p.Added)
		first.Removed, second.Removed = halves(p.Removed)
		first.Changed, second.Changed = halves(p.Changed)
		switch { // second is empty if no list has two items; then at least two have one
		case len(second.Added)+len(second.Removed)+len(second.Changed) > 0:
		case len(first.Added) > 0:
			second.Added, first.Added = first.Added, nil
		default:
			second.Removed, first.Removed = first.Removed, nil
		}
		first.Versions, second.Versions = versionsOf(first), versionsOf(second)
		return []event.Payload{first, second}
	case event.SubscriptionActive:
		switch {
		case p.URIs != nil:
			p.URIs = nil
		case p.Missing != nil:
			p.Missing = nil
		default:
			return nil
		}
		return []event.Payload{p}
	case event.ConfigRejected:
		if half := len(p.Problems) / 2; half > 0 {
			p.Problems = p.Problems[:half]
			return []event.Payload{p}
		}
	}
	return nil
}

// namesOf returns the exported names of the list items in p: the entries of all whose keys p
// contains.
func namesOf(p event.Payload, all map[string]string) map[string]string {
	list, ok := p.(event.ListChanged)
	if !ok || len(all) == 0 {
		return all
	}
	names := map[string]string{}
	for _, key := range slices.Concat(list.Added, list.Removed, list.Changed) {
		if name, differs := all[key]; differs {
			names[key] = name
		}
	}
	return names
}

func versionsOf(p event.ListChanged) (versions []catalog.ItemVersion) {
	keys := map[string]bool{}
	for _, key := range slices.Concat(p.Added, p.Removed, p.Changed) {
		keys[key] = true
	}
	for _, v := range p.Versions {
		if keys[v.Key] {
			versions = append(versions, v)
		}
	}
	return versions
}

func halves(s []string) (first, second []string) {
	n := (len(s) + 1) / 2
	return s[:n], s[n:]
}
