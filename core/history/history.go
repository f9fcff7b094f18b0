// Package history derives the versions of a resource from its stored events.
//
// A version is a published content; an announcement without a change makes no
// version. The content before the first stored event is also a version, known only by its
// digest in that event. Removals are versions without a content.
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

// Version is one content of a resource, or its removal.
type Version struct {
	// ID is the id of the event that published the version; "" for the content before the
	// first event.
	ID        string         `json:"id,omitempty"`
	Timestamp time.Time      `json:"timestamp,omitzero"` // when the change was noticed; zero without ID
	Cause     event.Cause    `json:"cause,omitempty"`
	Removed   bool           `json:"removed,omitempty"`
	MimeType  string         `json:"mimeType,omitempty"`
	Size      *int64         `json:"size,omitempty"` // bytes; nil: unknown
	Digest    catalog.Digest `json:"digest,omitzero"`
	// Text says that the text of the content is stored and can be shown.
	Text bool `json:"text"`
}

// MarshalJSON writes the time in [event.TimeFormat].
func (v Version) MarshalJSON() ([]byte, error) {
	type members Version
	out := struct {
		ID        string `json:"id,omitempty"`
		Timestamp string `json:"timestamp,omitempty"` // replaces the one in members
		members
	}{ID: v.ID, members: members(v)}
	if !v.Timestamp.IsZero() {
		out.Timestamp = v.Timestamp.UTC().Format(event.TimeFormat)
	}
	return printable.Marshal(out)
}

// Versions returns the versions that the events of one resource describe, oldest first; if
// there are more than most, only the newest ones. Text is false in all of them: the caller sets
// it. The events must be in the order of the log; Versions returns their first error.
func Versions(events iter.Seq2[event.Event, error], most int) ([]Version, error) {
	var versions []Version
	for e, err := range events {
		if err != nil {
			return nil, err
		}
		switch p := e.Payload.(type) {
		case event.ResourceRemoved:
			versions = append(versions, Version{ID: e.ID, Timestamp: e.Timestamp, Cause: e.Cause, Removed: true})
		case event.ResourceUpdated:
			if p.Digest.IsZero() || p.Changed != nil && !*p.Changed {
				continue
			}
			if len(versions) == 0 && !p.PreviousDigest.IsZero() {
				versions = append(versions, Version{Digest: p.PreviousDigest})
			}
			versions = append(versions, Version{ID: e.ID, Timestamp: e.Timestamp, Cause: e.Cause, MimeType: p.MimeType, Size: p.Size, Digest: p.Digest})
		}
		if len(versions) > 2*most {
			versions = slices.Delete(versions, 0, len(versions)-most)
		}
	}
	return versions[max(0, len(versions)-most):], nil
}

// Digests returns the digest of each version; zero for a removal.
func Digests(versions []Version) (digests []catalog.Digest) {
	for _, v := range versions {
		digests = append(digests, v.Digest)
	}
	return digests
}

// ErrNoVersion is in the errors of [Pair] if a version to compare does not exist.
var ErrNoVersion = errors.New("no such version")

// Pair returns the two versions to compare: without ids, the last two; with one id, that
// version and the newest one; with two ids, these two. The number at the end of an id is
// accepted in place of the id. The versions must be oldest first; removals are never compared.
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
