package journal

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// store is the JetStream server that holds the log, in this process or on a cluster, and the
// connection to it.
type store struct {
	opts     Options
	dir      *dir      // nil on a cluster
	embedded *embedded // nil on a cluster, and if another process uses the directory
	socket   *socket   // for readers in other processes; nil if dir is
	reads    string    // the directory used by another process, whose log is only read
	nc       *nats.Conn
	js       jetstream.JetStream
	// fault is signalled by the server in this process when it cannot write. Capacity
	// 1, never closed; nil on a cluster.
	fault    chan struct{}
	instance string // identifies this Journal among all that use the log
	subjects subjects
	counts   counters
}

func newStore(opts Options) *store {
	return &store{opts: opts, instance: newEpoch(), subjects: subjects(opts.Stream)}
}

// open starts the store, if it is in this process, and connects to it. suspect is called
// whenever the connection was lost: the log may have been replaced.
func (s *store) open(suspect func()) error {
	if s.opts.URL == "" {
		s.fault = make(chan struct{}, 1)
		err := s.start()
		if errors.Is(err, ErrLocked) && s.opts.Existing {
			s.reads, s.fault = s.opts.Dir, nil
			if s.connect(suspect) != nil {
				return err // the process that uses the directory does not listen
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
	if err := s.connect(suspect); err != nil {
		return err
	}
	if s.embedded == nil {
		return s.supported()
	}
	return nil
}

// needs is the error for a server that is too old: atomic batches of messages with ids came
// with 2.12.1.
const needs = "mcptrack needs NATS 2.12.1 or newer with JetStream"

// supported returns why the log cannot be on the NATS server; nil if it can.
func (s *store) supported() error {
	version := s.nc.ConnectedServerVersion()
	var have [3]int
	if _, err := fmt.Sscanf(version, "%d.%d.%d", &have[0], &have[1], &have[2]); err == nil && slices.Compare(have[:], []int{2, 12, 1}) < 0 {
		return fmt.Errorf("journal: the NATS server has version %s; %s", printable.Line(version, 40), needs)
	}
	var first time.Time // when the server said that there is no JetStream
	for {
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout/2)
		_, err := s.js.AccountInfo(ctx)
		cancel()
		switch {
		case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
			return fmt.Errorf("journal: JetStream is not enabled for the account on the NATS server; %s", needs)
		case !errors.Is(err, jetstream.ErrJetStreamNotEnabled):
			return nil // or a cluster that is starting, which is waited for
		case first.IsZero():
			first = time.Now()
		case time.Since(first) > time.Second:
			return fmt.Errorf("journal: JetStream is not enabled on the NATS server; %s", needs)
		}
		backoff.Sleep(context.Background(), 100*time.Millisecond)
	}
}

// start locks the directory and starts the server in this process.
func (s *store) start() error {
	var err error
	if s.dir, err = openDir(s.opts.Dir, s.opts.Existing); err != nil {
		return err
	}
	if was := s.dir.readMark(); !was.Clean && s.opts.Durability == Always {
		if err := s.dir.sync(); err != nil {
			return fmt.Errorf("journal: sync the data of a run that was killed: %w", err)
		}
	}
	s.embedded = &embedded{dir: s.dir, durability: s.opts.Durability, log: &serverLog{log: s.opts.Logger, fault: s.fault}}
	if err := s.embedded.start(); err != nil || s.opts.Existing {
		return err
	}
	if s.socket, err = s.dir.listen(s.embedded.InProcessConn); err != nil {
		s.opts.Logger.Warn("other processes cannot read the event log while this process runs", "err", err)
	}
	return nil
}

func (s *store) connect(suspect func()) error {
	opts := []nats.Option{
		nats.Name("mcptrack"),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(100 * time.Millisecond),
		nats.ReconnectJitter(50*time.Millisecond, 200*time.Millisecond),
		nats.ReconnectBufSize(-1), // the writer repeats what cannot be sent now
		nats.Timeout(5 * time.Second),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			s.opts.Logger.Debug("error on the connection to the store", "err", printable.Line(err.Error(), 256))
		}),
	}
	servers := s.opts.URL
	if s.embedded != nil {
		opts = append(opts, nats.InProcessServer(s.embedded), nats.ReconnectWait(10*time.Millisecond), nats.ReconnectJitter(0, 0))
	} else if s.reads != "" {
		opts = append(opts, nats.SetCustomDialer(socketDialer{s.reads}))
		servers = "nats://127.0.0.1" // not used: the dialer ignores it
	} else {
		opts = append(opts, nats.ReconnectHandler(func(*nats.Conn) { suspect() }))
		for one := range strings.SplitSeq(s.opts.URL, ",") {
			if u, err := url.Parse(strings.TrimSpace(one)); err != nil || u.Host == "" {
				return errors.New("journal: invalid NATS URL; expected nats://host:4222")
			}
		}
		if s.opts.Credentials != "" {
			// The client reads the file as a whole, at every connection.
			if _, err := secretfile.Load(s.opts.Credentials, maxCredentials, 0o007); err != nil {
				return fmt.Errorf("journal: read the NATS credentials: %w", err)
			}
			opts = append(opts, nats.UserCredentials(s.opts.Credentials))
		}
	}
	var err error
	if s.nc, err = nats.Connect(servers, opts...); errors.Is(err, nats.ErrNoServers) {
		return errors.New("journal: no NATS server responds")
	} else if err != nil {
		return fmt.Errorf("journal: connect to NATS: %w", err)
	}
	if s.js, err = jetstream.New(s.nc); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	return nil
}

// reconnected waits until the client has found the server again.
func (s *store) reconnected(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		// A request that was sent on the old connection is never answered.
		try, done := context.WithTimeout(ctx, 500*time.Millisecond)
		_, err := s.js.AccountInfo(try)
		done()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("journal: connect to the store: %w", err)
		}
	}
}

// release undoes open, in reverse order.
func (s *store) release() {
	if s.nc != nil {
		s.nc.Close()
	}
	if s.socket != nil {
		s.socket.close()
	}
	if s.embedded != nil {
		s.embedded.stop()
	}
	if s.dir != nil {
		_ = s.dir.close()
	}
}

// maxCredentials bounds the size of a file of NATS credentials.
const maxCredentials = 64 << 10
