package natslog

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"time"

	"github.com/klauspost/compress/s2"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// storedList is the JSON form of a list, which is stored compressed.
type storedList struct {
	ServerID string       `json:"serverId"`
	List     catalog.Kind `json:"list"`
	Keys     []string     `json:"keys"`
	Digests  []byte       `json:"digests"` // of the items, one after the other, in the order of Keys
	When     time.Time    `json:"when"`    // time at which the list was stored
	position
}

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

func (l knownList) encode(at position) (data []byte, ttl time.Duration, err error) {
	p := storedList{ServerID: l.name.ServerID, List: l.name.Kind, When: time.Now().UTC(), position: at}
	for _, it := range l.list {
		p.Keys, p.Digests = append(p.Keys, it.Key), append(p.Digests, it.Digest[:]...)
	}
	data, err = json.Marshal(p)
	return s2.Encode(nil, data), 0, err
}

// listState is a stored list to which later events are applied.
type listState struct {
	name journal.ListName
	at   position
	when time.Time // time at which the list was stored
	keys map[string]catalog.Digest
}

// readList returns the list in a stored message, or nil if it contains none.
func readList(data []byte) *listState {
	const size = len(catalog.Digest{})
	data, ok := unpack(data, maxList)
	var p storedList
	if !ok || json.Unmarshal(data, &p) != nil || len(p.Digests) != size*len(p.Keys) {
		return nil
	}
	l := &listState{name: journal.ListName{ServerID: p.ServerID, Kind: p.List}, at: p.position, when: p.When, keys: map[string]catalog.Digest{}}
	for i, key := range p.Keys {
		l.keys[key] = catalog.Digest(p.Digests[i*size:][:size])
	}
	return l
}

// maxList limits the size of a list, in bytes, before it is compressed.
const maxList = 64 << 20

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

// pendingLists contains the [journal.Pending] lists by subject. The Pending list of a server is always
// stored before the server's list of resources. So if the stored list of resources reflects a
// change, the Pending list that belongs to the change is also stored.
type pendingLists map[string]*listState

// add handles a change to a list of resources that is newer than the stored Pending list. It adds the
// changed resources to the Pending list, because the events about them may be missing.
func (l pendingLists) add(e *event.Event, m message, epoch string) {
	p, ok := e.Payload.(event.ListChanged)
	if !ok || p.List != catalog.Resources {
		return
	}
	name := journal.ListName{ServerID: e.ServerID, Kind: journal.Pending}
	subject := knownList{name: name}.subject()
	list := l[subject]
	switch {
	case list == nil:
		list = &listState{name: name, keys: map[string]catalog.Digest{}}
		l[subject] = list
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
	pending := pendingLists(lists)
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
				pending.add(&e, m, epoch)
			}
			list.at, list.when = position{m.seq, epoch}, m.stored // a retry continues after this event
			return true
		})
	})
}
