package journal

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startStore starts one NATS server on the loopback, in this process.
func startStore(t testing.TB) (url string) {
	t.Helper()
	srv, err := server.NewServer(&server.Options{
		ServerName: "n", Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, JetStream: true, StoreDir: t.TempDir(),
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
	if !srv.ReadyForConnections(10 * time.Second) {
		t.Fatal("the server is not ready")
	}
	return srv.ClientURL()
}

// farStore stands between a client and a server. While it is slow it holds back what
// the server delivers, until the client asks it something.
type farStore struct {
	url string

	mu    sync.Mutex // guards all below
	slow  bool
	held  chan struct{} // closed when what is held goes on; nil if nothing is
	conns []net.Conn
}

func startFarStore(t testing.TB) *farStore {
	t.Helper()
	to := startStore(t)[len("nats://"):]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &farStore{url: fmt.Sprintf("nats://%s", l.Addr())}
	var pumps sync.WaitGroup
	pumps.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			store, err := net.Dial("tcp", to)
			if err != nil {
				_ = client.Close()
				return
			}
			f.mu.Lock()
			f.conns = append(f.conns, client, store)
			f.mu.Unlock()
			pumps.Go(func() { pump(store, client, f.asked) })
			pumps.Go(func() { pump(client, store, func([]byte) { f.wait() }) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		f.setSlow(false)
		f.cut()
		pumps.Wait()
	})
	return f
}

// pump copies until one end is closed, and closes the other.
func pump(to, from net.Conn, before func([]byte)) {
	defer to.Close()
	buf := make([]byte, 64<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		before(buf[:n])
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
	}
}

// asked looks at what the client sends.
func (f *farStore) asked(b []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	next := bytes.Contains(b, []byte("$JS.API.CONSUMER.MSG.NEXT"))
	switch {
	case f.slow && f.held == nil && next:
		f.held = make(chan struct{})
	case f.held != nil && !next && bytes.Contains(b, []byte("$JS.API.")):
		close(f.held)
		f.held, f.slow = nil, false // once
	}
}

func (f *farStore) wait() {
	f.mu.Lock()
	held := f.held
	f.mu.Unlock()
	if held != nil {
		<-held
	}
}

// cut ends all connections; the client makes new ones.
func (f *farStore) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.conns = nil
}

func (f *farStore) setSlow(slow bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow = slow
	if f.held != nil && !slow {
		close(f.held)
		f.held = nil
	}
}

// TestDeliveriesAreNoAnswers: what one reader is sent while another one opens a
// consumer is not taken for the answer.
func TestDeliveriesAreNoAnswers(t *testing.T) {
	t.Parallel()
	f := startFarStore(t)
	j := open(t, Options{URL: f.url, Replicas: 1})
	appendN(t, j, newSource(), 20)
	one, err := j.open(t.Context(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer one.close()
	f.setSlow(true)
	if m, err := one.next(t.Context()); !errors.Is(err, errQuiet) {
		t.Fatalf("%d came, %v", m.seq, err)
	}
	other, err := j.open(t.Context(), 5)
	if err != nil {
		t.Fatal(err)
	}
	defer other.close()
	if other.consumer == one.consumer || other.pending != 16 {
		t.Errorf("a consumer %q with %d to come", other.consumer, other.pending)
	}
	for want, msgs := range map[uint64]*messages{1: one, 5: other} {
		if m, err := msgs.next(t.Context()); m.seq != want || err != nil {
			t.Errorf("the first is %d, want %d, %v", m.seq, want, err)
		}
	}
}

// TestSilenceIsNoEnd: a store that takes its time has all that it had before.
func TestSilenceIsNoEnd(t *testing.T) {
	t.Parallel()
	f := startFarStore(t)
	j := open(t, Options{URL: f.url, Replicas: 1})
	began := time.Now().Add(-time.Minute)
	const n = 20
	appendN(t, j, newSource(), n)
	eventually(t, "the states are kept", 10*time.Second, func() bool {
		info, err := j.info(t.Context(), j.opts.Stream+"_states")
		return err == nil && info.State.Msgs == n
	})

	f.setSlow(true)
	if seq, err := j.Since(t.Context(), began); seq != 1 || err != nil {
		t.Errorf("the first of the last minute is %d, %v", seq, err)
	}
	f.setSlow(true)
	if states, err := j.States(t.Context()); len(states) != n || err != nil {
		t.Errorf("%d states, %v", len(states), err)
	}
	f.setSlow(true)
	var found []uint64
	err := j.scan(t.Context(), 1, n, func(seq uint64, _ string) { found = append(found, seq) })
	if len(found) != n || !slices.IsSorted(found) || err != nil {
		t.Errorf("looking up what was stored finds %v, %v", found, err)
	}
}

// TestNothingPendingIsAnEnd: what is not there is not waited for.
func TestNothingPendingIsAnEnd(t *testing.T) {
	t.Parallel()
	j := open(t, Options{URL: startStore(t), Replicas: 1})
	appendN(t, j, newSource(), 3)
	found := 0
	began := time.Now()
	if err := j.scan(t.Context(), 1, 5, func(uint64, string) { found++ }); found != 3 || err != nil {
		t.Errorf("%d found, %v", found, err)
	}
	if took := time.Since(began); took > callTimeout/2 {
		t.Errorf("it took %v", took)
	}
}
