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

// storedList is the wire form of a part of a list.
type storedList struct {
	ServerID string       `json:"serverId"`
	List     catalog.Kind `json:"list"`
	// Version is the same in all parts of one version.
	Version string            `json:"version"`
	Parts   int               `json:"parts"`
	Items   map[string]string `json:"items"` // key → digest
	When    time.Time         `json:"when"`  // when it was stored
	position
}

// listPart bounds the bytes of the items of one part.
const listPart = 512 << 10

// listToken separates the tokens of the server and of the list in the subjects of lists.
const listToken = ".list."

// knownList is a list from an event or without one: its keys and digests.
type knownList struct {
	name journal.ListName
	list catalog.List
}

// newKnownList copies the list, so that the caller may change it and descriptors are not kept.
func newKnownList(name journal.ListName, list catalog.List) knownList {
	return knownList{name, journal.StoredList(list)}
}

func (l knownList) subject() string {
	return serverToken(l.name.ServerID) + listToken + string(l.name.Kind)
}

// encode returns the parts of a list. Parts of an earlier, longer version stay stored and are
// ignored.
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

// listReader assembles lists from their parts. It has the parts by subject and number.
type listReader map[string]map[int]storedList

// read takes one message with its subject below the prefix of states, and reports whether it is
// part of a list.
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

// listState is a list while its changes are read.
type listState struct {
	name journal.ListName
	at   position
	when time.Time // when it was stored
	keys map[string]catalog.Digest
}

// whole returns the complete lists by their subjects.
func (r listReader) whole() map[string]*listState {
	out := map[string]*listState{}
	for subject, parts := range r {
		if list := join(parts); list != nil {
			out[subject] = list
		}
	}
	return out
}

// join returns nil if a part is missing or belongs to another version.
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

// apply changes the list as the event says. The event has no digests: an added or changed item gets
// a zero digest, so that it differs from the server's.
func (l *listState) apply(e *event.Event) {
	p, ok := e.Payload.(event.ListChanged)
	if !ok || e.ServerID != l.name.ServerID || p.List != l.name.Kind {
		return // stored by another client
	}
	for _, key := range p.Removed {
		delete(l.keys, key)
	}
	for _, keys := range [][]string{p.Added, p.Changed} {
		for _, key := range keys {
			l.keys[key] = catalog.Digest{}
		}
	}
}

// owedLists are the [journal.Owed] lists by their subjects. A list of resources is stored after the
// owed list, so if it reflects a change, the owed list of that time does, and is stored.
type owedLists map[string]*listState

// add records the resources of a change that the owed list does not reflect: events about them may
// be missing.
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

// changeLists applies the events that the stored lists do not reflect because a process was killed
// after it stored the event. It skips changes of a list that was never stored, since the rest of
// the list is unknown. lists are by their subjects; server is a token.
func (l *Log) changeLists(ctx context.Context, server string, lists map[string]*listState) error {
	byEvent := map[string]*listState{} // by the subject of their changes
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
	return retried(ctx, func() error {
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
			list.at, list.when = position{m.seq, epoch}, m.stored // another attempt continues
			return true
		})
	})
}
