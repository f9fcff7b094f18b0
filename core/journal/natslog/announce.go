package natslog

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
)

// AnnouncementTTL is how long an announcement is stored unless it is repeated.
const AnnouncementTTL = time.Hour

// Announcement is the last message about a server from the process that holds its lease, for
// the other processes on the cluster.
type Announcement struct {
	ServerID string `json:"serverId"`
	// Status is null when the server was removed.
	Status json.RawMessage `json:"status"`
}

func (a Announcement) subject() string { return serverToken(a.ServerID) + ".server" }

func (a Announcement) encode(position, int) (parts [][]byte, ttl time.Duration, err error) {
	data, err := json.Marshal(a)
	return [][]byte{data}, AnnouncementTTL, err
}

// Announce replaces the announcement about a server, if the lease is still held. It never
// waits. The error is [journal.ErrClosed], or that Status is not JSON.
func (l *Lease) Announce(a Announcement) error {
	if a.Status != nil && !json.Valid(a.Status) {
		return errors.New("event log: the status of a server is not JSON")
	}
	return l.log.remember(a, l)
}

// Announcements returns the last announcement about every server, and then each new one; some
// may be repeated. It ends with the cause of ctx, or [journal.ErrClosed].
func (l *Log) Announcements(ctx context.Context) iter.Seq2[Announcement, error] {
	return func(yield func(Announcement, error) bool) {
		ctx, cancel := l.lifetime(ctx)
		defer cancel()
		retry := backoff.New(100*time.Millisecond, 2*time.Second)
		for ctx.Err() == nil {
			more := l.store.announcements(ctx, func(a Announcement) bool {
				retry.Reset()
				return yield(a, nil)
			})
			if !more {
				return
			}
			backoff.Sleep(ctx, retry.Next())
		}
		yield(Announcement{}, context.Cause(ctx))
	}
}

// announcements reads with one consumer of the store until that consumer fails, and reports
// whether the caller wants more.
func (s *store) announcements(ctx context.Context, yield func(Announcement) bool) (more bool) {
	msgs, err := s.consume(ctx, s.opts.Stream+"_states", jetstream.ConsumerConfig{
		DeliverPolicy: jetstream.DeliverLastPerSubjectPolicy, FilterSubjects: []string{s.subjects.of("state.*.server")},
	})
	if err != nil {
		return true
	}
	defer msgs.close()
	for quiet := 0; ; {
		m, err := msgs.next(ctx)
		if errors.Is(err, errQuiet) {
			if quiet++; quiet%4 != 0 {
				continue
			}
			if late, err := msgs.left(ctx); err != nil || late {
				return true
			}
			continue
		}
		if err != nil {
			return true
		}
		var a Announcement
		if json.Unmarshal(sanitize(m.data), &a) == nil && a.ServerID != "" && !yield(a) {
			return false
		}
	}
}
