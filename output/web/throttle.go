package web

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of wrong tokens.
const (
	guessesPerAddr = 5
	guessInterval  = 2 * time.Second
	guesses        = 50
	guessesPerSec  = 10
	maxGuessers    = 10_000 // addresses that are remembered
)

// throttle limits how often tokens can be guessed, per address and in all.
type throttle struct {
	mu     sync.Mutex
	byAddr map[netip.Prefix]*rate.Limiter // addresses that sent a wrong token
	all    *rate.Limiter
}

func newThrottle() *throttle {
	return &throttle{byAddr: make(map[netip.Prefix]*rate.Limiter), all: rate.NewLimiter(guessesPerSec, guesses)}
}

// outcome is the result of checking a token.
type outcome int

const (
	rightToken outcome = iota
	wrongToken
	notChecked // too many wrong ones came before
)

// check checks a token of a client. quiet says that wrong tokens come too fast to be
// logged.
func (t *throttle) check(client netip.Prefix, now time.Time, valid func() bool) (result outcome, quiet bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	own := t.byAddr[client]
	exhausted := t.all.TokensAt(now) < 1
	if own != nil && (exhausted || own.TokensAt(now) < 1) {
		return notChecked, true
	}
	if valid() {
		delete(t.byAddr, client)
		return rightToken, false
	}
	t.all.AllowN(now, 1)
	if own == nil {
		t.forget(now)
		own = rate.NewLimiter(rate.Every(guessInterval), guessesPerAddr)
		t.byAddr[client] = own
	}
	own.AllowN(now, 1)
	return wrongToken, exhausted
}

// forget makes room for an address: it drops those that may guess freely again, and
// any other if all are still limited.
func (t *throttle) forget(now time.Time) {
	if len(t.byAddr) < maxGuessers {
		return
	}
	for addr, l := range t.byAddr {
		if l.TokensAt(now) >= guessesPerAddr {
			delete(t.byAddr, addr)
		}
	}
	for addr := range t.byAddr {
		if len(t.byAddr) < maxGuessers {
			return
		}
		delete(t.byAddr, addr)
	}
}
