package journal

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// Recorder stores the events and states that a tracker observes. Its methods never wait. Everything
// is stored in the order of the calls. The only error that they return is [ErrClosed].
type Recorder interface {
	// Append adds the event to the log, which assigns it a new id. After the call the event is
	// shared and must not be modified. The new state of a resource or list that the event reports
	// is stored in the same step: see [Known].
	Append(e *event.Event) error
	// Remember stores the state of a resource that no event reports, such as its content when it is
	// first read. The zero State removes the stored state of the resource.
	Remember(r ResourceID, st State) error
	// RememberList stores the keys and digests of a list that no event reports, or that is stored
	// already.
	RememberList(name ListName, list catalog.List) error
}

// Log is a totally ordered log of events, together with the states and texts that belong to
// it. The package documentation describes the contract; journaltest.Run tests it for every
// implementation. Its methods are safe for concurrent use.
type Log interface {
	Recorder
	// Flush waits until everything that was appended, remembered or put before the call is stored,
	// or until ctx ends.
	Flush(ctx context.Context) error

	// Epoch returns the epoch: the first part of the ids that the log currently assigns.
	Epoch() string
	// Bounds returns the numbers of the first and the last stored event.
	Bounds(ctx context.Context) (Bounds, error)
	// Read yields the entries starting with number from, up to the entry that was last at the time
	// of the call. If from is 0, it starts with the first stored entry. Where entries are missing,
	// it yields entries with Gap set, one for each reason. An error is yielded last and ends the
	// sequence.
	Read(ctx context.Context, from uint64) iter.Seq2[Entry, error]
	// Follow yields the entries starting with number from, and then each new entry as soon as it is
	// durable, without losing any in between. If from is 0, it starts with the first stored entry.
	// It ends with an error: the cause of ctx, ErrClosed, or ErrEpoch.
	Follow(ctx context.Context, from uint64) iter.Seq2[Entry, error]
	// Select yields the entries that sel selects, up to the current last one, oldest first. It is
	// cheap even in a large log. It yields no gaps for missing entries, because it is meant for
	// viewing history, not for following the log. An error is yielded last and ends the sequence.
	Select(ctx context.Context, sel Selection) iter.Seq2[Entry, error]
	// Resume determines where a consumer continues that has received the events up to id. id may be
	// any text, because it comes from clients.
	Resume(ctx context.Context, id string) (Resumption, error)
	// Since returns the number of the first entry that was stored at t or later, or Last+1 if there
	// is none.
	Since(ctx context.Context, t time.Time) (uint64, error)

	// States returns the states of resources and lists as of the last appended event. If server is
	// empty, it returns the states for all servers.
	States(ctx context.Context, server string) (States, error)
	// Contents returns the texts and definitions that are stored with the log. It never returns nil.
	Contents() Contents

	// Err returns the reason why events cannot be stored at the moment, or nil if they can. Until
	// the problem is solved, new events stay queued and readers do not see them.
	Err() error
	// Stats returns statistics since the log was opened.
	Stats() StoreStats
	// Close stores the queued events, within the time limit in the options, ends all iterators, and
	// waits for all goroutines of the log. If events could not be stored, the returned error
	// reports how many. Later calls return nil.
	Close() error
}

// Bounds describes the range of events that a log currently stores.
type Bounds struct {
	Epoch string
	// First and Last are the numbers of the first and the last stored event. If the log is empty,
	// First is Last+1.
	First, Last uint64
	// Bytes is the stored size of the log, or 0 if unknown.
	Bytes uint64
}

// Selection specifies which entries Select returns.
type Selection struct {
	// ServerID restricts the selection to events of one server. If it is empty, events of all
	// servers are selected.
	ServerID string
	// URI restricts the selection to events that change the content of one resource of the server:
	// updates with a digest, and removals.
	URI string
	// Own restricts the selection, if it is for one server, to events about the server itself and its
	// lists: events without a resource.
	Own bool
	// After restricts the selection to entries that were stored at this time or later.
	After time.Time
}

// Contents stores texts of resources by the digest of their content, and definitions of list items and
// instructions by their [catalog.Fingerprint], so that versions can be displayed and compared even
// after a restart. Their total size is limited; the oldest texts are
// removed first. Storing a text never delays an event.
type Contents interface {
	// Put stores a text under the digest of its content, unless it is already stored. It never
	// waits. Texts larger than [MaxContent] bytes are not stored.
	Put(d catalog.Digest, text string)
	// Get returns the text with the given digest; ok is false if no such text is stored.
	Get(ctx context.Context, d catalog.Digest) (text string, ok bool, err error)
	// Stored returns the subset of the given digests for which texts are stored. If it also returns
	// an error, the result may be incomplete.
	Stored(ctx context.Context, digests []catalog.Digest) (map[catalog.Digest]bool, error)
	// Dropped returns the number of texts that could not be stored.
	Dropped() uint64
}

// MaxContent is the size in bytes of the largest text that is stored.
const MaxContent = 4 << 20

// StoreStats counts what a log has done since it was opened.
type StoreStats struct {
	Stored   uint64 // events that are durable
	Waiting  int    // items that are queued or being stored
	Folded   uint64 // events that were merged into newer events
	TooLarge uint64 // events that were too large for the store
	Failures uint64 // failed attempts to store
	Fenced   uint64 // events that were dropped because their lease was lost
	Damages  uint64 // entries that could not be read back, plus logs found truncated
	// Syncs, SyncTime and SlowestSync measure the groups of events that were each stored in one
	// step.
	Syncs       uint64
	SyncTime    time.Duration
	SlowestSync time.Duration
}

// Durability specifies when the log treats an event as stored.
type Durability string

// Durability levels. The package documentation describes which events each level may lose.
const (
	Always   Durability = "always"
	Interval Durability = "interval"
)

var (
	// ErrClosed is returned when a log is used after Close.
	ErrClosed = errors.New("the event log is closed")
	// ErrEpoch ends an iterator that cannot continue because a new log has replaced the old one.
	// Call Resume to find out where to continue.
	ErrEpoch = errors.New("the log was replaced")
	// ErrLocked matches the error that is returned if another process is already writing the log.
	ErrLocked = errors.New("data directory is in use")
)

// FollowToEnd follows the log until ctx ends, then yields the remaining entries that were stored by
// then, and ends without an error. To receive everything that was appended, call [Log.Flush] before
// ctx ends. It also ends without an error when the log is closed; any other error ends it early.
// The returned sequence can be iterated only once.
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
