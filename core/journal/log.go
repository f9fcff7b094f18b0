package journal

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// Recorder stores what a tracker finds out. Its methods never wait, and what they are given is
// stored in the order of the calls. Their only error is [ErrClosed].
type Recorder interface {
	// Append adds the event to the log, under an id of the log. From now on the event is shared and
	// must not be changed. What the event says about a resource or a list is remembered in the same
	// step: see [Known].
	Append(e *event.Event) error
	// Remember stores the state of a resource without an event, such as its content at the first
	// read. The zero State forgets the resource.
	Remember(r ResourceID, st State) error
	// RememberList stores the keys and digests of a list without an event.
	RememberList(name ListName, list catalog.List) error
}

// Log is a log of events in one total order, with the states, texts and records that belong to it.
// The package documentation has the contract, and journaltest.Run the tests that all
// implementations pass. Its methods may be called from several goroutines.
type Log interface {
	Recorder
	// Store appends the event and waits until it is durable. If ctx ends first, the event may still
	// be stored later.
	Store(ctx context.Context, e *event.Event) (Entry, error)
	// Flush waits until everything that was appended, remembered or put is stored, or ctx ends.
	Flush(ctx context.Context) error

	// Epoch returns the first part of the ids that the log assigns now.
	Epoch() string
	// Bounds returns the ends of the log.
	Bounds(ctx context.Context) (Bounds, error)
	// Read yields the entries from number from (0: the first) up to the last one at the time of the
	// call. For missing entries it yields entries with Gap, one for each reason. An error is
	// yielded last and ends the sequence.
	Read(ctx context.Context, from uint64) iter.Seq2[Entry, error]
	// Follow yields the entries from number from (0: the first) on, and then every new one as soon
	// as it is durable; nothing is missing between the two. It ends with an error: the cause of
	// ctx, ErrClosed, or ErrEpoch.
	Follow(ctx context.Context, from uint64) iter.Seq2[Entry, error]
	// Select yields the selected entries up to the current last one, oldest first. It is cheap even
	// in a large log. It yields no gaps for missing entries: it is for history, not for following.
	// An error is yielded last and ends the sequence.
	Select(ctx context.Context, sel Selection) iter.Seq2[Entry, error]
	// Resume determines where a consumer that has the events up to id continues. id may be any
	// text.
	Resume(ctx context.Context, id string) (Resumption, error)
	// Since returns the number of the first entry that was stored at t or later, or Last+1 if there
	// is none.
	Since(ctx context.Context, t time.Time) (uint64, error)

	// States returns the states of resources and lists as of the last appended event, of one server
	// if server is not "".
	States(ctx context.Context, server string) (States, error)
	// Contents are the texts stored beside the log; never nil.
	Contents() Contents
	// Records returns the records with that name, which consists of letters, digits, _ and -.
	Records(name string) Records

	// Err returns why events cannot be stored at the moment, or nil if they can. While they cannot,
	// events wait and no reader sees them.
	Err() error
	// Stats returns counts since the log was opened.
	Stats() StoreStats
	// Close stores what is queued, within the time that the options allow, ends all iterators,
	// and waits for everything the log owns. It returns how many events could not be stored.
	// Later calls return nil.
	Close() error
}

// Bounds are the ends of the log.
type Bounds struct {
	Epoch string
	// First and Last are the numbers of the first and the last stored event. First is Last+1 if the
	// log is empty.
	First, Last uint64
	// Bytes is the size of the log in the store, if known.
	Bytes uint64
}

// Selection selects a part of the log.
type Selection struct {
	// ServerID selects the events of one server; "" selects all events.
	ServerID string
	// URI selects the contents of one resource of the server: its updates with a digest, and its
	// removals.
	URI string
	// After selects entries that were stored at this time or later.
	After time.Time
}

// Contents holds texts of resources by the digest of their content, so that versions can be shown
// and compared after a restart. Their total size is limited; the oldest are removed first. Nothing
// waits for them.
type Contents interface {
	// Put stores a text under the digest of its content, unless it is already stored. It never
	// waits. It does not store texts of more than [MaxContent] bytes.
	Put(d catalog.Digest, text string)
	// Get returns the text with the digest; ok is false if it is not stored.
	Get(ctx context.Context, d catalog.Digest) (text string, ok bool, err error)
	// Stored returns the digests whose text is stored. After an error the result may be incomplete.
	Stored(ctx context.Context, digests []catalog.Digest) (map[catalog.Digest]bool, error)
	// Dropped counts texts that could not be stored.
	Dropped() uint64
}

// MaxContent is the size in bytes of the largest text that is stored.
const MaxContent = 4 << 20

// Records are small values by key, stored with the log and, on a cluster, shared by its processes.
// Only a process that has seen the latest value can replace it, so an outdated process overwrites
// nothing.
type Records interface {
	// Get returns a record, without a Value if it does not exist. The record may be outdated; a
	// write based on it then fails.
	Get(ctx context.Context, key string) (Record, error)
	// Put stores rec if the stored revision is rec.Revision (0: the record does not exist), and
	// returns the new revision. Otherwise the error is [ErrChanged]. After any other error the
	// value may have been stored.
	Put(ctx context.Context, rec Record) (revision uint64, err error)
	// PutAfter stores rec if no record was written after write number last, as reported by Follow.
	// Otherwise the error is [ErrChanged].
	PutAfter(ctx context.Context, rec Record, last uint64) (revision uint64, err error)
	// Remove removes the record if the stored revision is rec.Revision. Otherwise the error is
	// [ErrChanged].
	Remove(ctx context.Context, rec Record) error
	// Follow calls changed with all records, and then with each change, until ctx ends or the log
	// is closed. It may repeat all records.
	Follow(ctx context.Context, changed func(Changes))
}

// Record is one of [Records]. Keys are letters, digits, -, _ and dots.
type Record struct {
	Key      string
	Value    []byte // nil: the record does not exist
	Revision uint64 // of the last write; 0: there was none
}

// Changes are records that were written.
type Changes struct {
	Records []Record
	// All is set if these are all existing records.
	All  bool
	Last uint64 // the number of the last write, for PutAfter
}

// StoreStats counts what happened since a log was opened.
type StoreStats struct {
	Stored   uint64 // events that are durable
	Waiting  int    // items that are queued or being stored
	Folded   uint64 // events that were merged into a newer one
	TooLarge uint64 // events that were too large for the store
	Failures uint64 // failed attempts to store
	Fenced   uint64 // events that were dropped because their lease was lost
	Damages  uint64 // entries that could not be read back, and logs that came back shorter
	// Syncs, SyncTime and SlowestSync refer to groups of events that were stored in one step.
	Syncs       uint64
	SyncTime    time.Duration
	SlowestSync time.Duration
}

// Durability says when an event counts as stored.
type Durability string

// The durabilities; see the package documentation for what each may lose.
const (
	Always   Durability = "always"
	Interval Durability = "interval"
	OS       Durability = "os"
)

var (
	// ErrClosed is the error of using a log after Close.
	ErrClosed = errors.New("the event log is closed")
	// ErrEpoch ends an iterator that cannot continue because the log was replaced by a new one.
	// Resume returns where to continue.
	ErrEpoch = errors.New("the log was replaced")
	// ErrChanged is the error of a write that is not based on the latest value.
	ErrChanged = errors.New("another process has changed the record")
	// ErrTooLarge is the error of an event that is too large for the store.
	ErrTooLarge = errors.New("event too large for the store")
	// ErrLocked matches the error of opening a log that another process writes.
	ErrLocked = errors.New("data directory is in use")
)

// FollowToEnd follows the log until ctx ends, then yields what was stored until then, and ends. To
// get everything that was appended, call [Log.Flush] before ctx ends. It also ends without an error
// if the log is closed; any other error ends it early. Its result can be used once.
func FollowToEnd(ctx context.Context, log Log, from uint64) iter.Seq2[Entry, error] {
	live := log.Follow(ctx, from)
	return func(yield func(Entry, error) bool) {
		next := from
		for e, err := range live {
			switch {
			case errors.Is(err, ErrClosed):
				return
			case err != nil && (ctx.Err() == nil || errors.Is(err, ErrEpoch)):
				yield(Entry{}, err)
				return
			}
			if err != nil {
				break
			}
			next = max(next, e.Seq+1)
			if !yield(e, nil) {
				return
			}
		}
		for e, err := range log.Read(context.WithoutCancel(ctx), next) {
			if errors.Is(err, ErrClosed) || !yield(e, err) || err != nil {
				return
			}
		}
	}
}
