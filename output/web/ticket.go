package web

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync"
	"time"
)

const (
	ticketID   = 16                       // bytes
	ticketTag  = 16                       // bytes
	ticketBody = 8 + ticketID + ticketTag // bytes: expiry time, id and the tag of the token
	ticketSize = ticketBody + sha256.Size // bytes: with the signature
	maxRevoked = 10_000                   // ids
)

// tickets issues and checks the values of login cookies. A ticket is its expiry time, a
// random id and what tells the token of the login, signed with a key of this process. It ends
// when that token is removed. Only revoked ids are stored; if
// there are too many, the key changes, which ends all logins.
type tickets struct {
	mu      sync.Mutex
	key     [32]byte
	revoked map[[ticketID]byte]time.Time // the expiry times of revoked tickets, by id
}

func newTickets() *tickets {
	t := &tickets{revoked: make(map[[ticketID]byte]time.Time)}
	_, _ = rand.Read(t.key[:]) // never fails
	return t
}

// issue returns a ticket that is valid for cookieAge, for a login with a token.
func (t *tickets) issue(now time.Time, of secret) string {
	b := binary.BigEndian.AppendUint64(make([]byte, 0, ticketSize), uint64(now.Add(cookieAge).Unix()))
	b = b[:8+ticketID]
	_, _ = rand.Read(b[8:]) // never fails
	t.mu.Lock()
	defer t.mu.Unlock()
	b = append(b, t.tag(of)...)
	return base64.RawURLEncoding.EncodeToString(append(b, t.sign(b)...))
}

// sign returns the signature of b. mu must be held.
func (t *tickets) sign(b []byte) []byte {
	mac := hmac.New(sha256.New, t.key[:])
	mac.Write(b)
	return mac.Sum(nil)
}

// tag tells which token a ticket belongs to, to those who know key and token. mu must be held.
func (t *tickets) tag(of secret) []byte { return t.sign(of.digest[:])[:ticketTag] }

// valid reports whether a ticket was issued here for one of the tokens, which it returns, and has
// neither expired nor been revoked.
func (t *tickets) valid(text string, now time.Time, tokens Token) (of secret, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, id, tag, ok := t.open(text, now)
	if _, gone := t.revoked[id]; !ok || gone {
		return secret{}, false
	}
	for _, s := range tokens.secrets {
		if hmac.Equal(tag, t.tag(s)) {
			return s, true
		}
	}
	return secret{}, false
}

// open returns the expiry time, the id and the tag of a ticket; ok is false if its signature is wrong
// or it has expired. mu must be held.
func (t *tickets) open(text string, now time.Time) (end time.Time, id [ticketID]byte, tag []byte, ok bool) {
	b, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(b) != ticketSize || !hmac.Equal(t.sign(b[:ticketBody]), b[ticketBody:]) {
		return end, id, nil, false
	}
	end = time.Unix(int64(binary.BigEndian.Uint64(b)), 0)
	copy(id[:], b[8:])
	return end, id, b[8+ticketID : ticketBody], now.Before(end)
}

// revoke makes a ticket invalid.
func (t *tickets) revoke(text string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	end, id, _, ok := t.open(text, now)
	if !ok {
		return
	}
	if len(t.revoked) >= maxRevoked {
		for id, end := range t.revoked {
			if now.After(end) {
				delete(t.revoked, id)
			}
		}
	}
	if len(t.revoked) >= maxRevoked {
		clear(t.revoked)
		_, _ = rand.Read(t.key[:])
		return
	}
	t.revoked[id] = end
}
