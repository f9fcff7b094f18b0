// Package keyring stores secrets in the user's keyring: Secret Service on Linux, Keychain on
// macOS, Credential Manager on Windows.
//
// # Libraries
//
// zalando/go-keyring: one API for all three, without cgo. Its calls take no context and may wait
// for a person to unlock the keyring, so this package bounds them.
package keyring

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"time"

	keyring "github.com/zalando/go-keyring"
)

// Service is the name under which our secrets are stored.
const Service = "mcptrack"

// patience bounds a call: a locked keyring asks its user, who may be away.
const patience = 10 * time.Second

// ErrNotFound is the error for a secret that the keyring does not have.
var ErrNotFound = keyring.ErrNotFound

var errNoAnswer = errors.New("the keyring does not respond")

// A Ring is the user's keyring. It passes one call at a time to the keyring: while a locked
// keyring waits for its user, further calls wait and time out instead of prompting the user again.
type Ring struct {
	// turn has capacity 1: a call sends to it before it calls the keyring and receives from it
	// afterwards; never closed.
	turn chan struct{}
}

// New returns the user's keyring without accessing it.
func New() *Ring { return &Ring{make(chan struct{}, 1)} }

// Get returns the secret of the account. If the keyring does not answer in time, it fails; the
// call, which cannot be interrupted, continues in the background until the keyring answers. The
// same holds for Set and Delete.
func (r *Ring) Get(account string) (string, error) {
	return r.bounded(func() (string, error) { return keyring.Get(Service, account) })
}

// Set stores the secret of the account and replaces an earlier one.
func (r *Ring) Set(account, secret string) error {
	_, err := r.bounded(func() (string, error) { return "", keyring.Set(Service, account, secret) })
	return err
}

// Delete deletes the secret of the account. A missing secret is not an error.
func (r *Ring) Delete(account string) error {
	_, err := r.bounded(func() (string, error) { return "", keyring.Delete(Service, account) })
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Get is [Ring.Get] for callers that need only one secret.
func Get(account string) (string, error) { return New().Get(account) }

// bounded calls the keyring, if it is reachable, and waits at most patience.
func (r *Ring) bounded(call func() (string, error)) (string, error) {
	if err := reachable(); err != nil {
		return "", err
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case r.turn <- struct{}{}:
	case <-timer.C:
		return "", errNoAnswer
	}
	type result struct {
		secret string
		err    error
	}
	done := make(chan result, 1) // sent to once; never closed
	go func() {
		secret, err := call()
		<-r.turn
		done <- result{secret, err}
	}()
	select {
	case r := <-done:
		return r.secret, r.err
	case <-timer.C:
		return "", errNoAnswer
	}
}

// reachable returns an error if the keyring needs a session bus and there is none: the library
// would start one.
func reachable() error {
	switch runtime.GOOS {
	case "darwin", "windows":
		return nil
	}
	if os.Getenv("DBUS_SESSION_BUS_ADDRESS") != "" {
		return nil
	}
	if _, err := os.Stat("/run/user/" + strconv.Itoa(os.Getuid()) + "/bus"); err != nil {
		return errors.New("there is no D-Bus session bus")
	}
	return nil
}
