package natslog

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// storedList is the JSON form of one part of a list. A long list is stored in several parts.
type storedList struct {
	ServerID string       `json:"serverId"`
	List     catalog.Kind `json:"list"`
	// Version identifies the version of the list to which this part belongs.
	Version string            `json:"version"`
	Parts   int               `json:"parts"`
	Items   map[string]string `json:"items"` // digest of each item, by its key
	When    time.Time         `json:"when"`  // time at which the list was stored
	position
}

// listPart limits the size, in bytes, of the items in one part of a list.
const listPart = 512 << 10

// listToken is the separator between the server and the list in the subject of a stored list.
const listToken = ".list."

// knownList is a list to be stored, reduced to the keys and digests of its items.
type knownList struct {
	name journal.ListName
	list catalog.List
}

// newKnownList copies the list, so that the caller may modify it and the item descriptors can be
// freed.
func newKnownList(name journal.ListName, list catalog.List) knownList {
	return knownList{name, journal.StoredList(list)}
}

func (l knownList) subject() string {
	return serverToken(l.name.ServerID) + listToken + string(l.name.Kind)
}

// encode returns the parts in which the list is stored. If an earlier version of the list had more
// parts, the extra parts stay in the store, and readers ignore them.
func (l knownList) encode(at position, limit int) (out [][]byte, ttl time.Duration, err error) {
	limit = min(listPart, limit/2)
	parts := []map[string]string{{}}
	size := 0
	for _, it := range l.list {
		key, err := json.Marshal(it.Key)
		if err != nil {
			return nil, 0, err
		}
		digest := it.Digest.String()
		if size += len(key) + len(digest) + 4; size > limit {
			parts, size = append(parts, map[string]string{}), len(key)+len(digest)+4
		}
		parts[len(parts)-1][it.Key] = digest
	}
	p := storedList{ServerID: l.name.ServerID, List: l.name.Kind, Version: journal.NewEpoch(), Parts: len(parts), When: time.Now().UTC(), position: at}
	for _, p.Items = range parts {
		data, err := json.Marshal(p)
		if err != nil {
			return nil, 0, err
		}
		out = append(out, data)
	}
	return out, 0, nil
}

// listReader assembles lists from their parts, which it collects by the subject of the list and the
// number of the part.
type listReader map[string]map[int]storedList

// read adds a message if it contains a part of a list, and reports whether it does. subject is the
// subject of the message without the prefix for states.
func (r listReader) read(subject string, data []byte) bool {
	server, of, ok := strings.Cut(subject, listToken)
	if !ok {
		return false
	}
	kind, n, more := strings.Cut(of, ".")
	part, err := strconv.Atoi(n)
	var p storedList
	if more && err != nil || json.Unmarshal(data, &p) != nil || serverToken(p.ServerID) != server || string(p.List) != kind {
		return true
	}
	of = server + listToken + kind
	if r[of] == nil {
		r[of] = map[int]storedList{}
	}
	r[of][part] = p
	return true
}

// listState is a stored list to which later events are applied.
type listState struct {
	name journal.ListName
	at   position
	when time.Time // time at which the list was stored
	keys map[string]catalog.Digest
}

// whole returns the lists of which all parts were read, by subject.
func (r listReader) whole() map[string]*listState {
	out := map[string]*listState{}
	for subject, parts := range r {
		if list := join(parts); list != nil {
			out[subject] = list
		}
	}
	return out
}

// join builds a list from its parts. It returns nil if a part is missing or belongs to another
// version.
func join(parts map[int]storedList) *listState {
	first, ok := parts[0]
	if !ok {
		return nil
	}
	l := &listState{name: journal.ListName{ServerID: first.ServerID, Kind: first.List}, at: first.position, when: first.When, keys: map[string]catalog.Digest{}}
	for n := range first.Parts {
		p, ok := parts[n]
		if !ok || p.Version != first.Version {
			return nil
		}
		for key, digest := range p.Items {
			d, err := catalog.ParseDigest(digest)
			if err != nil {
				return nil
			}
			l.keys[key] = d
		}
	}
	return l
}

// apply changes the list as the event reports. An added or changed item whose digest the event does not
// contain gets a zero digest, which never equals the digest of the item on the server.
func (l *listState) apply(e *event.Event) {
	p, ok := e.Payload.(event.ListChanged)
	if !ok || e.ServerID != l.name.ServerID || p.List != l.name.Kind {
		return // not a list change: any client of the cluster can store messages
	}
	for _, key := range p.Removed {
		delete(l.keys, key)
	}
	for _, keys := range [][]string{p.Added, p.Changed} {
		for _, key := range keys {
			l.keys[key] = catalog.Digest{}
		}
	}
	for _, v := range p.Versions {
		if _, listed := l.keys[v.Key]; listed {
			l.keys[v.Key] = v.Digest
		}
	}
}

// owedLists contains the [journal.Owed] lists by subject. The Owed list of a server is always
// stored before the server's list of resources. So if the stored list of resources reflects a
// change, the Owed list that belongs to the change is also stored.
type owedLists map[string]*listState

// add handles a change to a list of resources that is newer than the stored Owed list. It adds the
// changed resources to the Owed list, because the events about them may be missing.
func (o owedLists) add(e *event.Event, m message, epoch string) {
	p, ok := e.Payload.(event.ListChanged)
	if !ok || p.List != catalog.Resources {
		return
	}
	name := journal.ListName{ServerID: e.ServerID, Kind: journal.Owed}
	subject := knownList{name: name}.subject()
	list := o[subject]
	switch {
	case list == nil:
		list = &listState{name: name, keys: map[string]catalog.Digest{}}
		o[subject] = list
	case list.at.covers(list.when, m, epoch):
		return
	}
	for _, uri := range slices.Concat(p.Added, p.Removed, p.Changed) {
		list.keys[uri] = catalog.Digest{}
	}
}

func (l *listState) items() catalog.List {
	items := make([]catalog.Item, 0, len(l.keys))
	for key, d := range l.keys {
		items = append(items, catalog.Item{Key: key, Digest: d})
	}
	return catalog.NewList(items)
}

// changeLists applies events to the stored lists that do not reflect them yet, because a process
// was killed after it had stored the event but not the list. It ignores events about lists that
// were never stored, because the rest of such a list is unknown. lists contains the lists by
// subject. server is a subject token, or * for all servers.
func (l *Log) changeLists(ctx context.Context, server string, lists map[string]*listState) error {
	byEvent := map[string]*listState{} // lists by the subject of the events that change them
	var patterns []string
	for _, list := range lists {
		byEvent[l.store.subjects.list(serverToken(list.name.ServerID), list.name.Kind)] = list
	}
	for _, kind := range catalog.Kinds() {
		patterns = append(patterns, l.store.subjects.list(server, kind))
	}
	owed := owedLists(lists)
	epoch := l.Epoch()
	from := uint64(math.MaxUint64)
	outdated := map[string]*listState{}
	err := l.store.latest(ctx, l.store.opts.Stream, func(m message) {
		list, ok := byEvent[m.subject]
		if !ok || list.at.covers(list.when, m, epoch) {
			return
		}
		outdated[m.subject] = list
		if list.at.Epoch == epoch {
			from = min(from, list.at.Seq+1)
		} else {
			from = 1
		}
	}, patterns...)
	if err != nil || len(outdated) == 0 {
		return err
	}
	cfg := jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: from}
	for subject := range outdated {
		cfg.FilterSubjects = append(cfg.FilterSubjects, subject)
	}
	return retried(ctx, func(ctx context.Context) (bool, error) {
		return l.store.each(ctx, l.store.opts.Stream, cfg, func(m message) bool {
			list, ok := outdated[m.subject]
			if !ok || list.at.covers(list.when, m, epoch) {
				return true
			}
			var e event.Event
			if json.Unmarshal(m.data, &e) == nil {
				list.apply(&e)
				owed.add(&e, m, epoch)
			}
			list.at, list.when = position{m.seq, epoch}, m.stored // a retry continues after this event
			return true
		})
	})
}
