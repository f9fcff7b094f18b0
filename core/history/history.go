// Package history derives the versions of a resource from its stored events, and the versions of the
// definitions of tools and other items from the events about their lists.
//
// Each published change of the content is a version; an announcement without a change is not. The
// content before the first stored event is also a version, of which only the digest in that event
// is known. Removals are versions without content. The same holds for definitions. The events of an
// mcptrack that did not store definitions have no digests, so their versions have none either.
package history

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// Version is one version of a resource's content or of a definition, or the removal of either.
type Version struct {
	ServerID string `json:"serverId"`
	URI      string `json:"uri,omitempty"`  // of the resource, if the version is of its content
	Item     string `json:"item,omitempty"` // name of the item, such as tool/search, if it is of its definition
	// ID is the id of the event that published the version. It is empty for the content before the
	// first event.
	ID string `json:"id,omitempty"`
	// Timestamp is when the content was first seen. For the content before the first event it is
	// zero unless the caller sets it; see [FirstSeen].
	Timestamp time.Time   `json:"timestamp,omitzero"`
	Cause     event.Cause `json:"cause,omitempty"`
	Added     bool        `json:"added,omitempty"` // the item was not listed before; only of a definition
	Removed   bool        `json:"removed,omitempty"`
	// Classes are the classes of the change from the version before (see package lock), only of a
	// definition; nil if they are unknown.
	Classes  []event.DriftClass `json:"classes,omitempty"`
	MimeType string             `json:"mimeType,omitempty"`
	Size     *int64             `json:"size,omitempty"`  // size in bytes; nil if unknown
	Digest   catalog.Digest     `json:"digest,omitzero"` // zero if unknown
	// Text reports whether the text of the content is stored and can be displayed.
	Text bool `json:"text"`
}

// MarshalJSON encodes the version with its time in [event.TimeFormat].
func (v Version) MarshalJSON() ([]byte, error) {
	type members Version
	out := struct {
		ID        string `json:"id,omitempty"`
		Timestamp string `json:"timestamp,omitempty"` // overrides the field in members
		members
	}{ID: v.ID, members: members(v)}
	if !v.Timestamp.IsZero() {
		out.Timestamp = v.Timestamp.UTC().Format(event.TimeFormat)
	}
	return printable.Marshal(out)
}

// Versions returns the versions that the events of one resource describe, oldest first. If there
// are more than most, it returns only the newest. Text is always false; the caller sets it. The
// events must be in log order. If the iterator yields an error, Versions returns it.
func Versions(events iter.Seq2[event.Event, error], most int) ([]Version, error) {
	var versions []Version
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		switch p := e.Payload.(type) {
		case event.ResourceRemoved:
			versions = append(versions, Version{ServerID: e.ServerID, URI: e.ResourceURI, ID: e.ID, Timestamp: e.Timestamp, Cause: e.Cause, Removed: true})
		case event.ResourceUpdated:
			if p.Digest.IsZero() || p.Changed != nil && !*p.Changed {
				continue
			}
			if len(versions) == 0 && !p.PreviousDigest.IsZero() {
				versions = append(versions, Version{ServerID: e.ServerID, URI: e.ResourceURI, Digest: p.PreviousDigest})
			}
			versions = append(versions, Version{ServerID: e.ServerID, URI: e.ResourceURI, ID: e.ID, Timestamp: e.Timestamp, Cause: e.Cause,
				MimeType: p.MimeType, Size: p.Size, Digest: p.Digest})
		}
		if len(versions) > 2*most {
			versions = slices.Delete(versions, 0, len(versions)-most)
		}
	}
	return versions[max(0, len(versions)-most):], nil
}

// FirstSeen returns when the content of a resource before its first stored change was first seen:
// when the resource was added, or else when the server was first followed. It returns zero if the
// events do not tell. The events are those of the resource's server, in log order.
func FirstSeen(events iter.Seq2[event.Event, error], uri string) (seen time.Time, err error) {
	for e, err := range events {
		if err != nil {
			return time.Time{}, err
		}
		switch p := e.Payload.(type) {
		case event.SubscriptionActive:
			if seen.IsZero() {
				seen = e.Timestamp
			}
		case event.ResourceAdded:
			if e.ResourceURI == uri {
				seen = e.Timestamp
			}
		case event.ResourceRemoved:
			if e.ResourceURI == uri {
				return seen, nil
			}
		case event.ResourceUpdated:
			if e.ResourceURI == uri && !p.Digest.IsZero() && (p.Changed == nil || *p.Changed) {
				return seen, nil
			}
		}
	}
	return seen, nil
}

// Digests returns the content digest of each version. The digest of a removal is zero.
func Digests(versions []Version) (digests []catalog.Digest) {
	for _, v := range versions {
		digests = append(digests, v.Digest)
	}
	return digests
}

// ErrNoVersion reports that a version passed to [Pair] does not exist, or that there are too few
// versions to compare.
var ErrNoVersion = errors.New("no such version")

// Pair returns two versions to compare: the last two if ids is empty, the given version and the
// newest one if there is one id, or the two given versions. An id may be abbreviated to the number
// at its end. The versions must be sorted oldest first. Removals are never compared.
func Pair(versions []Version, ids []string) (from, to Version, err error) {
	versions = slices.DeleteFunc(slices.Clone(versions), func(v Version) bool { return v.Removed })
	if len(versions) == 0 {
		return from, to, fmt.Errorf("%w: no content is stored", ErrNoVersion)
	}
	newest := versions[len(versions)-1]
	if len(ids) == 0 {
		if len(versions) == 1 {
			return from, to, fmt.Errorf("%w: only one version is stored; there is nothing to compare yet", ErrNoVersion)
		}
		return versions[len(versions)-2], newest, nil
	}
	if from, err = find(versions, ids[0]); err != nil || len(ids) == 1 {
		return from, newest, err
	}
	to, err = find(versions, ids[1])
	return from, to, err
}

func find(versions []Version, id string) (Version, error) {
	_, err := strconv.ParseUint(id, 10, 64)
	number := err == nil
	for _, v := range slices.Backward(versions) {
		if v.ID != "" && (v.ID == id || number && strings.HasSuffix(v.ID, "-"+id)) {
			return v, nil
		}
	}
	return Version{}, fmt.Errorf("%w: %s", ErrNoVersion, printable.Line(id, 60))
}
