package journal

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// ListName identifies a list of a server.
type ListName struct {
	ServerID string
	Kind     catalog.Kind
}

// storedList is the wire form of a part of a list.
type storedList struct {
	ServerID string       `json:"serverId"`
	List     catalog.Kind `json:"list"`
	// Version is the same in all Parts parts of one version.
	Version string            `json:"version"`
	Parts   int               `json:"parts"`
	Items   map[string]string `json:"items"` // key → digest
}

// listPart bounds the items of one part: a server stores messages of at most 1 MiB
// unless it is configured otherwise.
const listPart = 512 << 10

// RememberList stores the keys and digests of a list that was published, or found without an
// event. It never waits. Parts of an earlier, longer version stay stored, and are ignored.
func (j *Journal) RememberList(name ListName, list catalog.List) error {
	return j.writer.queue.push(&item{note: j.store.listNote(name, list)})
}

// RememberList is like [Journal.RememberList], but does nothing once the lease is lost.
func (l *Lease) RememberList(name ListName, list catalog.List) error {
	n := l.journal.store.listNote(name, list)
	n.lease = l
	return l.journal.writer.queue.push(&item{note: n, lease: l})
}

func (s *store) listNote(name ListName, list catalog.List) *note {
	parts := []storedList{{Items: map[string]string{}}}
	size := 0
	for _, it := range list {
		if size += len(it.Key) + len(it.Digest.String()) + 6; size > listPart {
			parts, size = append(parts, storedList{Items: map[string]string{}}), 0
		}
		parts[len(parts)-1].Items[it.Key] = it.Digest.String()
	}
	n := &note{subject: s.subjects.of("state.") + Resource{ServerID: name.ServerID}.server() + listToken + string(name.Kind)}
	version := newEpoch()
	for _, p := range parts {
		p.ServerID, p.List, p.Version, p.Parts = name.ServerID, name.Kind, version, len(parts)
		data, err := json.Marshal(p)
		if err != nil {
			data = nil // strings always encode
		}
		n.parts = append(n.parts, data)
	}
	return n
}

// listToken separates the tokens of the server and of the list in the subjects of lists.
const listToken = ".list."

// listReader assembles lists from their parts.
type listReader map[ListName]map[int]storedList

// read takes one message, given its subject below the prefix of states, and reports whether it
// is part of a list.
func (r listReader) read(subject string, data []byte) bool {
	_, of, ok := strings.Cut(subject, listToken)
	if !ok {
		return false
	}
	var p storedList
	if json.Unmarshal(data, &p) != nil {
		return true
	}
	part := 0
	if _, n, ok := strings.Cut(of, "."); ok {
		var err error
		if part, err = strconv.Atoi(n); err != nil {
			return true
		}
	}
	name := ListName{p.ServerID, p.List}
	if r[name] == nil {
		r[name] = map[int]storedList{}
	}
	r[name][part] = p
	return true
}

// whole returns the lists whose parts are all there.
func (r listReader) whole() map[ListName]catalog.List {
	out := map[ListName]catalog.List{}
	for name, parts := range r {
		if items, err := join(parts); err == nil {
			out[name] = catalog.NewList(items)
		}
	}
	return out
}

func join(parts map[int]storedList) ([]catalog.Item, error) {
	first := parts[0]
	var items []catalog.Item
	for n := range first.Parts {
		p := parts[n]
		if p.Version != first.Version || p.Parts != first.Parts {
			return nil, fmt.Errorf("part %d is missing or of another version", n)
		}
		for key, digest := range p.Items {
			d, err := catalog.ParseDigest(digest)
			if err != nil {
				return nil, err
			}
			items = append(items, catalog.Item{Key: key, Digest: d})
		}
	}
	if first.Parts == 0 {
		return nil, fmt.Errorf("part 0 is missing")
	}
	return items, nil
}
