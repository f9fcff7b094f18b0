package journal

import (
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startTimeout is how long the store may take to be ready.
const startTimeout = 10 * time.Second

// maxBatch bounds the events that the server in this process stores as one step.
const maxBatch = 4096

// embedded is the server in this process. It listens on no port. When its store has failed it
// is restarted, which reads the store anew; the client reconnects (see InProcessConn).
type embedded struct {
	dir        *dir
	durability Durability
	log        *serverLog

	mu     sync.Mutex // guards server; a restart holds it, so that nobody connects in between
	server *server.Server
}

// start starts a server on the store.
func (m *embedded) start() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.startLocked()
}

func (m *embedded) startLocked() error {
	opts := &server.Options{
		ServerName:   "mcptrack",
		DontListen:   true,
		NoSigs:       true,
		MaxPayload:   8 << 20,
		MaxPending:   256 << 20,
		JetStream:    true,
		StoreDir:     m.dir.store(),
		SyncAlways:   m.durability == Always,
		SyncInterval: 2 * time.Minute,
		// Options limits what is stored. By default the server would estimate the free space,
		// and refuse to start on a full disk.
		JetStreamMaxStore:      1 << 50,
		JetStreamMaxMemory:     64 << 20,
		JetStreamLimits:        server.JSLimitOpts{MaxBatchSize: maxBatch},
		DisableJetStreamBanner: true,
		NoSystemAccount:        true,
	}
	if m.durability == Interval {
		opts.SyncInterval = 100 * time.Millisecond
	}
	if err := m.dir.checkSequences(); err != nil {
		return err
	}
	srv, err := server.NewServer(opts)
	if err != nil {
		return fmt.Errorf("journal: start the store: %w", err)
	}
	srv.SetLoggerV2(m.log, false, false, false)
	srv.Start()
	if !srv.ReadyForConnections(startTimeout) || !srv.JetStreamEnabled() {
		srv.Shutdown()
		srv.WaitForShutdown()
		return fmt.Errorf("journal: the store in %s did not start within %s; the log says why", m.dir.store(), startTimeout)
	}
	m.server = srv
	return nil
}

// restart reads the store anew after a fault.
func (m *embedded) restart() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopLocked()
	select {
	case <-m.log.fault: // of the server that is gone
	default:
	}
	return m.startLocked()
}

// stop stops the server and waits for it.
func (m *embedded) stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.stopLocked()
}

func (m *embedded) stopLocked() {
	if m.server != nil {
		m.server.Shutdown()
		m.server.WaitForShutdown()
		m.server = nil
	}
}

// InProcessConn connects the client to the server that runs now.
func (m *embedded) InProcessConn() (net.Conn, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.server == nil {
		return nil, errors.New("the store is not running")
	}
	c, err := m.server.InProcessConn()
	if err != nil {
		return nil, err
	}
	return newReadAhead(c), nil
}
