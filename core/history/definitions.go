package history

import (
	"context"
	"iter"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/lock"
	"github.com/mcptrack/mcptrack/core/textdiff"
)

// Item is what has versions: a resource's content, for the section [lock.SectionContents], or the
// definition of a list item or of the server's instructions.
type Item struct {
	Section lock.Section
	Key     string
}

// ParseItem parses an item as people type it: its name, as [lock.ParseName] takes it, or the URI of a
// resource, which is its content. ok is false for an item that has no history.
func ParseItem(text string) (it Item, ok bool) {
	section, key, named := lock.ParseName(text)
	switch {
	case !named:
		return Item{lock.SectionContents, text}, true
	case section == lock.SectionLaunch || section == lock.SectionCapabilities:
		return Item{}, false
	}
	return Item{section, key}, true
}

// Name returns the name of the item; see [lock.Name].
func (it Item) Name() string { return lock.Name(it.Section, it.Key) }

// Content reports whether the item is the content of a resource.
func (it Item) Content() bool { return it.Section == lock.SectionContents }

// Current returns the digest that the stored lists of a server have for a definition, or zero.
func Current(states journal.States, server string, it Item) catalog.Digest {
	key := it.Key
	if it.Section == lock.SectionInstructions {
		key = string(journal.Instructions)
	}
	known, _ := states.Lists[journal.ListName{ServerID: server, Kind: catalog.Kind(it.Section)}].Get(key)
	return known.Digest
}

// Definitions returns the versions of definitions of one server, oldest first, at most the newest of
// each. events are those about the server itself, in log order. current returns the digest of the
// current definition, or zero if it is unknown: it is a version, too, if no event reports it. Text and
// Classes are not set; see [Describe].
func Definitions(events iter.Seq2[event.Event, error], items []Item, current func(Item) catalog.Digest, most int) (map[Item][]Version, error) {
	found := make(map[Item][]Version, len(items))
	for _, it := range items {
		found[it] = nil
	}
	var server string
	var followed time.Time // since when the server is followed; zero if unknown
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		add := func(it Item, v catalog.ItemVersion, next Version) {
			versions, wanted := found[it]
			if !wanted {
				return
			}
			next.ServerID, next.Item, next.ID, next.Timestamp, next.Cause = e.ServerID, it.Name(), e.ID, e.Timestamp, e.Cause
			found[it] = newest(before(versions, v.PreviousDigest, next, followed), next, most)
		}
		server = e.ServerID
		switch p := e.Payload.(type) {
		case event.SubscriptionActive:
			if followed.IsZero() {
				followed = e.Timestamp
			}
		case event.ServerState:
			it := Item{Section: lock.SectionInstructions}
			versions := found[it]
			var last Version
			if len(versions) > 0 {
				last = versions[len(versions)-1]
			}
			if p.TellsInstructions() && p.InstructionsDigest != last.Digest {
				removed := p.InstructionsDigest.IsZero()
				add(it, catalog.ItemVersion{}, Version{Digest: p.InstructionsDigest, Removed: removed, Added: last.Removed && !removed})
			}
		case event.ListChanged:
			versions := map[string]catalog.ItemVersion{}
			for _, v := range p.Versions {
				versions[v.Key] = v
			}
			each := func(keys []string, next Version) {
				for _, key := range keys {
					v := versions[key]
					next.Digest = v.Digest
					add(Item{lock.Section(p.List), key}, v, next)
				}
			}
			each(p.Added, Version{Added: true})
			each(p.Changed, Version{})
			each(p.Removed, Version{Removed: true})
		}
	}
	for it, versions := range found {
		d := current(it)
		switch n := len(versions); {
		case d.IsZero():
		case n == 0:
			found[it] = []Version{{ServerID: server, Item: it.Name(), Timestamp: followed, Digest: d}}
		case versions[n-1].Digest.IsZero() && !versions[n-1].Removed: // an older mcptrack stored the event
			versions[n-1].Digest = d
		}
		found[it] = found[it][max(0, len(found[it])-most):]
	}
	return found, nil
}

// before returns versions to which next can be added: what it replaces has the digest d, if that is
// known.
func before(versions []Version, d catalog.Digest, next Version, followed time.Time) []Version {
	n := len(versions)
	switch {
	case d.IsZero():
	case n == 0:
		return []Version{{ServerID: next.ServerID, Item: next.Item, Timestamp: followed, Digest: d}}
	case versions[n-1].Digest.IsZero() && !versions[n-1].Removed:
		versions[n-1].Digest = d
	}
	return versions
}

// newest appends a version. It drops the oldest versions if there are many more than most.
func newest(versions []Version, next Version, most int) []Version {
	if versions = append(versions, next); len(versions) >= 2*most {
		versions = slices.Delete(versions, 0, len(versions)-most)
	}
	return versions
}

// A Log is the part of a [journal.Log] that versions are read from.
type Log struct {
	Select   func(context.Context, journal.Selection) iter.Seq2[journal.Entry, error]
	Contents journal.Contents // nil if no texts are stored
}

// MaxClassified limits how many versions, the newest, have classes. Classes need the definitions.
const MaxClassified = 100

// Definition returns the versions of one definition, oldest first, at most the newest, complete.
func (l Log) Definition(ctx context.Context, server string, it Item, current catalog.Digest, most int) ([]Version, error) {
	events := journal.Decoded(l.Select(ctx, journal.Selection{ServerID: server, Own: true}))
	found, err := Definitions(events, []Item{it}, func(Item) catalog.Digest { return current }, most)
	if err != nil {
		return nil, err
	}
	versions := found[it]
	for i := range versions {
		versions[i].ServerID = server
	}
	return versions, l.describe(ctx, it, versions)
}

// describe sets Text and Classes.
func (l Log) describe(ctx context.Context, it Item, versions []Version) error {
	if l.Contents == nil {
		return nil
	}
	stored, err := l.Contents.Stored(ctx, Digests(versions))
	if err != nil {
		return err
	}
	for i := range versions {
		versions[i].Text = stored[versions[i].Digest]
	}
	var old []byte // the definition of the version before; nil if it is not available
	for i := max(0, len(versions)-MaxClassified-1); i < len(versions); i++ {
		v := &versions[i]
		var definition []byte
		if v.Text {
			text, ok, err := l.Contents.Get(ctx, v.Digest)
			switch {
			case err != nil:
				return err
			case ok && len(text) <= textdiff.MaxText:
				definition = []byte(text)
			}
		}
		v.Classes = classes(it, *v, old, definition)
		old = definition
	}
	return nil
}

// classes returns the classes of the change to a version; nil if they are unknown.
func classes(it Item, v Version, old, definition []byte) (found []event.DriftClass) {
	var ids []string
	switch {
	case v.Added && definition != nil:
		ids = lock.Classify(it.Section, nil, definition)
	case v.Added:
		ids = []string{"added"}
	case v.Removed && old != nil:
		ids = lock.Classify(it.Section, old, nil)
	case v.Removed:
		ids = []string{"removed"}
	case old != nil && definition != nil:
		ids = lock.Classify(it.Section, old, definition)
	}
	for _, id := range ids {
		if c, ok := lock.FindClass(id); ok {
			found = append(found, event.DriftClass{ID: c.ID, Name: c.Name})
		}
	}
	return found
}
