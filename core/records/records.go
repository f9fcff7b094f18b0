// Package records stores a few small values by key, such as subscriptions and the positions of their
// deliveries. [File] stores them for one process; package natslog stores them for the processes that
// share a cluster.
package records

import (
	"context"
	"errors"
)

// Store is a collection of records. A write succeeds only if it is based on the latest value, so a
// process with outdated data cannot overwrite newer data. Its methods are safe for concurrent use.
type Store interface {
	// Get returns the record with the given key. Its Value is nil if there is no such record. The
	// record may be outdated; a write based on it then fails.
	Get(ctx context.Context, key string) (Record, error)
	// Put stores rec if the stored revision equals rec.Revision, and returns the new revision; a
	// Revision of 0 means that the record must not exist yet. If the revisions differ, it returns
	// [ErrChanged]. After any other error, the value may or may not have been stored.
	Put(ctx context.Context, rec Record) (revision uint64, err error)
	// Remove deletes the record if its stored revision equals rec.Revision. Otherwise it returns
	// [ErrChanged].
	Remove(ctx context.Context, rec Record) error
	// Follow calls changed first with all records and then after each change, until ctx ends or a
	// store that can be closed is closed. A later call may again pass all records.
	Follow(ctx context.Context, changed func(Changes))
}

// Record is a value in a [Store]. A key may contain letters, digits, -, _ and dots.
type Record struct {
	Key      string
	Value    []byte // JSON; nil if the record does not exist
	Revision uint64 // revision of the last write; 0 if never written
}

// Changes lists records that were written.
type Changes struct {
	Records []Record
	// All is set if Records contains all existing records, not only changed ones.
	All  bool
	Last uint64 // number of the last write, which is the revision of its record unless it was a removal
}

// ErrChanged is returned by a write that is not based on the latest value.
var ErrChanged = errors.New("another process has changed the record")
