package natslog

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/journal/journaltest"
)

// slowStore is a proxy between a client and a server. While it is slow, it holds back what the
// server delivers until the client sends another request.
type slowStore struct {
	url   string
	store string // its URL

	mu    sync.Mutex // guards the fields below
	slow  bool
	away  bool          // connections are refused
	held  chan struct{} // closed when what is held back continues; nil if nothing is
	conns []net.Conn
}

func startSlowStore(t testing.TB) *slowStore {
	t.Helper()
	return slowTo(t, journaltest.Store(t))
}

// slowTo starts a proxy to the server with the URL.
func slowTo(t testing.TB, url string) *slowStore {
	t.Helper()
	to := url[len("nats://"):]
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &slowStore{url: fmt.Sprintf("nats://%s", l.Addr()), store: "nats://" + to}
	var pumps sync.WaitGroup
	pumps.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			f.mu.Lock()
			away := f.away
			f.mu.Unlock()
			if away {
				_ = client.Close()
				continue
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
func (f *slowStore) asked(b []byte) {
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

func (f *slowStore) wait() {
	f.mu.Lock()
	held := f.held
	f.mu.Unlock()
	if held != nil {
		<-held
	}
}

// cut closes all connections; the client opens new ones.
func (f *slowStore) cut() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, c := range f.conns {
		_ = c.Close()
	}
	f.conns = nil
}

// setAway cuts the client off, or lets it connect again.
func (f *slowStore) setAway(away bool) {
	f.mu.Lock()
	f.away = away
	f.mu.Unlock()
	if away {
		f.cut()
	}
}

func (f *slowStore) setSlow(slow bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow = slow
	if f.held != nil && !slow {
		close(f.held)
		f.held = nil
	}
}

// A store that responds slowly is not taken for an empty one.
func TestRealSlowStoreIsReadToTheEnd(t *testing.T) {
	t.Parallel()
	f := startSlowStore(t)
	j := open(t, Options{URL: f.url, Replicas: 1})
	began := time.Now().Add(-time.Minute)
	const n = 20
	journaltest.AppendN(t, j, new(journaltest.Source), n)
	journaltest.Eventually(t, time.Minute, "the states are stored", func() bool {
		info, err := j.store.info(t.Context(), j.store.opts.Stream+"_states")
		return err == nil && info.State.Msgs == n
	})

	f.setSlow(true)
	if seq, err := j.Since(t.Context(), began); seq != 1 || err != nil {
		t.Errorf("the first of the last minute is %d, %v", seq, err)
	}
	f.setSlow(true)
	if states, err := j.States(t.Context(), ""); len(states.Resources) != n || err != nil {
		t.Errorf("%d states, %v", len(states.Resources), err)
	}
	f.setSlow(true)
	var found []uint64
	for e, err := range j.Read(t.Context(), 1) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, e.Seq)
	}
	if len(found) != n || !slices.IsSorted(found) {
		t.Errorf("the log has the entries %v", found)
	}
}
