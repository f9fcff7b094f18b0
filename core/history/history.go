// Package history derives the versions of a resource from its stored events.
//
// A version is a content that was published: an announcement without a change makes no version.
// The first version is known only by the event that replaced it, so it has no event of
// its own. Removals are versions without a content.
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
	// ID is that of the event; "" for the content before the first event.
	ID        string         `json:"id,omitempty"`
	Timestamp time.Time      `json:"timestamp,omitzero"` // when it was noticed
	Cause     event.Cause    `json:"cause,omitempty"`
	Removed   bool           `json:"removed,omitempty"`
	MimeType  string         `json:"mimeType,omitempty"`
	Size      *int64         `json:"size,omitempty"` // bytes; nil if not known
	Digest    catalog.Digest `json:"digest,omitzero"`
	// Text says that the text of the content is stored.
	Text bool `json:"text"`
}

// Versions returns the versions that the events of one resource describe, oldest first,
// at most the newest ones. The Text of all is false. Events come in the order of the log;
// the first error ends them.
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

// Digests returns the digests of the versions.
func Digests(versions []Version) (digests []catalog.Digest) {
	for _, v := range versions {
		digests = append(digests, v.Digest)
	}
	return digests
}

// ErrNoVersion is matched by the errors of Pair when there is no such version.
var ErrNoVersion = errors.New("no such version")

// Pair returns the two versions to compare: the last two without ids, a version and the
// newest one with one id, and two versions with two. An id may be given by the number at
// its end. Versions are oldest first; removals are never compared.
func Pair(versions []Version, ids []string) (from, to Version, err error) {
	versions = slices.DeleteFunc(slices.Clone(versions), func(v Version) bool { return v.Removed })
	if len(versions) == 0 {
		return from, to, fmt.Errorf("%w: no content is stored", ErrNoVersion)
	}
	newest := versions[len(versions)-1]
	if len(ids) == 0 {
		if len(versions) == 1 {
			return from, to, fmt.Errorf("%w: there is only one", ErrNoVersion)
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
