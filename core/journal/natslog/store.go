package natslog

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/internal/running"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// store is the connection to the servers that hold the log.
type store struct {
	opts     Options
	nc       *nats.Conn
	js       jetstream.JetStream
	instance string // identifies this Log among all that use the log
	subjects subjects
	health   running.Health
	current  atomic.Pointer[string] // see epoch
}

func newStore(opts Options) *store {
	return &store{opts: opts, health: running.Health{Logger: opts.Logger}, instance: journal.NewEpoch(), subjects: subjects(opts.Stream)}
}

// epoch returns the epoch of the log that is written, "" before it is known.
func (s *store) epoch() string {
	if epoch := s.current.Load(); epoch != nil {
		return *epoch
	}
	return ""
}

// largest returns the greatest size of a message: what the server accepts, less the headers.
func (s *store) largest() int { return int(s.nc.MaxPayload()) - 1024 }

// open connects. suspect is called whenever the connection was lost: the log may have been
// replaced.
func (s *store) open(suspect func()) error {
	if err := s.connect(suspect); err != nil {
		return err
	}
	return s.supported()
}

// needs is the error for a server that is too old: atomic batches of messages with ids came
// with 2.12.1.
const needs = "mcptrack needs NATS 2.12.1 or newer with JetStream"

// supported returns why the log cannot be on the NATS server; nil if it can.
func (s *store) supported() error {
	version := s.nc.ConnectedServerVersion()
	var have [3]int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &have[0], &have[1], &have[2]); err == nil && slices.Compare(have[:], []int{2, 12, 1}) < 0 {
		return fmt.Errorf("event log: the NATS server has version %s; %s", printable.Line(version, 40), needs)
	}
	var first time.Time // when the server said that there is no JetStream
	for {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout/2)
		_, err := s.js.AccountInfo(ctx)
		cancel()
		switch {
		case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return fmt.Errorf("event log: JetStream is not enabled for the account on the NATS server; %s", needs)
		case !errors.Is(err, jetstream.ErrJetStreamNotEnabled):
			return nil // or a cluster that is starting, which is waited for
		case first.IsZero():
			first = time.Now()
		case time.Since(first) > time.Second:
			return fmt.Errorf("event log: JetStream is not enabled on the NATS server; %s", needs)
		}
		backoff.Sleep(context.Background(), 100*time.Millisecond)
	}
}

func (s *store) connect(suspect func()) error {
	opts := []nats.Option{
		nats.Name("mcptrack"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 200*time.Millisecond),
		nats.ReconnectBufSize(-1), // the writer repeats what cannot be sent now
		nats.Timeout(5 * time.Second),
		nats.ReconnectHandler(func(*nats.Conn) { suspect() }),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			s.opts.Logger.Debug("error on the connection to the store", "err", printable.Line(err.Error(), 256))
		}),
	}
	for one := range strings.SplitSeq(s.opts.URL, ",") {
		if u, err := url.Parse(strings.TrimSpace(one)); err != nil || u.Host == "" {
			return errors.New("event log: invalid NATS URL; expected nats://host:4222")
		}
	}
	if s.opts.Credentials != "" {
		// The client reads the file as a whole, at every connection.
		if _, err := secretfile.Load(s.opts.Credentials, maxCredentials, 0o007); err != nil {
			return fmt.Errorf("event log: read the NATS credentials: %w", err)
		}
		opts = append(opts, nats.UserCredentials(s.opts.Credentials))
	}
	var err error
	if s.nc, err = nats.Connect(s.opts.URL, opts...); errors.Is(err, nats.ErrNoServers) {
		return errors.New("event log: no NATS server responds")
	} else if err != nil {
		return fmt.Errorf("event log: connect to NATS: %w", err)
	}
	if s.js, err = jetstream.New(s.nc); err != nil {
		return fmt.Errorf("event log: %w", err)
	}
	return nil
}

func (s *store) close() {
	if s.nc != nil {
		s.nc.Close()
	}
}

// maxCredentials bounds the size of a file of NATS credentials.
const maxCredentials = 64 << 10
