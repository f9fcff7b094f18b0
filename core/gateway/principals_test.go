package gateway

import (
	"context"
	"encoding/json"
	"slices"
	"testing"

	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

// The requests of one principal to a server leave room for the requests of others.
func TestRequestsAreShared(t *testing.T) {
	t.Parallel()
	var l limiter
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // a request that would have to wait fails
	var held []func()
	defer func() {
		for _, release := range held {
			release()
		}
		if len(l.byServer) != 0 {
			t.Error("limits are left")
		}
	}()
	for range maxPerServer {
		release, err := l.acquire(t.Context(), "docs", "alice")
		if err != nil {
			t.Fatal(err)
		}
		held = append(held, release)
	}
	if release, err := l.acquire(ctx, "docs", "alice"); err == nil {
		release()
		t.Error("alice has more than there are")
	}
	release, err := l.acquire(t.Context(), "docs", "bob")
	if err != nil {
		t.Fatal(err)
	}
	held = append(held, release)
}

// The waiting input rounds of one principal leave room for the rounds of others.
func TestInputRoundsAreShared(t *testing.T) {
	t.Parallel()
	var s inputRounds
	defer s.close()
	put := func(owner string) (string, bool) {
		return s.put(&inputRound{owner: owner, cancel: func(error) {}})
	}
	for range maxWaitingRounds {
		if _, ok := put("alice"); !ok {
			t.Fatal("alice does not get all")
		}
	}
	if _, ok := put("alice"); ok {
		t.Error("alice gets more than all")
	}
	state, ok := put("bob")
	if !ok {
		t.Fatal("bob gets nothing")
	}
	if s.take(state, [32]byte{}) == nil || s.room.All() != maxWaitingRounds {
		t.Errorf("%d are counted", s.room.All())
	}
}

// Room for a session is made by ending a session of the same principal, never a session of another.
func TestRoomComesFromTheSamePrincipal(t *testing.T) {
	t.Parallel()
	_, o := newAsking(t)
	c := &o.gateway.sessions
	capabilities := json.RawMessage(`{"roots":{}}`)
	acquire := func(name string, capabilities json.RawMessage) *ownSession {
		return c.acquire(t.Context(), &mcpserver.Request{Principal: name}, "docs", capabilities, session.EraLegacy)
	}
	bobSession := acquire("bob", capabilities)
	if bobSession == nil {
		t.Fatal("bob gets no session")
	}
	c.release(bobSession, true)
	var aliceSessions []*ownSession
	for n := acquire("alice", capabilities); n != nil; n = acquire("alice", capabilities) {
		aliceSessions = append(aliceSessions, n)
	}
	idle := func() []*ownSession {
		c.mu.Lock()
		defer c.mu.Unlock()
		return slices.DeleteFunc(slices.Clone(c.all), func(s *ownSession) bool { return s.busy })
	}
	if len(aliceSessions) != maxSessionsPerServer-1 || !slices.Equal(idle(), []*ownSession{bobSession}) {
		t.Errorf("alice got %d sessions, and %d are idle", len(aliceSessions), len(idle()))
	}
	if carol := acquire("carol", capabilities); carol == nil {
		t.Error("carol gets no session")
	} else {
		c.release(carol, false)
	}
	for _, o := range aliceSessions {
		c.release(o, true)
	}
	if acquire("alice", json.RawMessage(`{"sampling":{}}`)) != nil {
		t.Error("there was room")
	}
	if left := idle(); len(left) != len(aliceSessions) || !slices.Contains(left, bobSession) || slices.Contains(left, aliceSessions[0]) {
		t.Error("not the oldest session of alice was ended")
	}
	if again := acquire("bob", capabilities); again != bobSession {
		t.Error("bob does not get his session again")
	} else {
		c.release(again, true)
	}
}
