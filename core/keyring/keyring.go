// Package keyring reads secrets from the user's keyring: Secret Service on Linux,
// Keychain on macOS, Credential Manager on Windows.
//
// # Libraries
//
// zalando/go-keyring: one API for the three, without cgo. Its calls take no context
// and may wait for a person to unlock the keyring, so that [Get] bounds them.
package keyring

import (
	"errors"
	"time"

	keyring "github.com/zalando/go-keyring"
)

// Service is the service that our secrets are stored under.
const Service = "mcptrack"

// patience is how long a keyring may take: a locked one asks its user, who may be away.
const patience = 10 * time.Second

// ErrNotFound is the error for a secret that the keyring does not have.
var ErrNotFound = keyring.ErrNotFound

// Get returns the secret of the account. A keyring that does not answer in time is an
// error; the call to it then goes on by itself until the keyring answers, because it
// cannot be interrupted.
func Get(account string) (string, error) {
	type result struct {
		secret string
		err    error
	}
	done := make(chan result, 1) // sent to once; never closed
	go func() {
		secret, err := keyring.Get(Service, account)
		done <- result{secret, err}
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r := <-done:
		return r.secret, r.err
	case <-timer.C:
		return "", errors.New("the keyring does not answer")
	}
}
