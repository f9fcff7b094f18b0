package web

import (
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// Limits of wrong tokens.
const (
	guessesPerAddr = 5               // of one address, at once
	guessInterval  = 2 * time.Second // after which an address may send one more
	guesses        = 50              // of all addresses, at once
	guessesPerSec  = 10              // of all addresses, after that
	maxGuessers    = 10_000          // addresses that are remembered
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
	notChecked // the client or all clients together sent too many wrong tokens before
)

// check checks a token of a client by calling valid, unless too many wrong tokens came before.
// quiet says that wrong tokens come too fast to be logged.
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

// forget makes room in byAddr for one more address: it drops the addresses whose limit is
// fully recovered and, if that is not enough, any others.
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
