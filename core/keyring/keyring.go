// Package keyring stores secrets in the user's keyring: Secret Service on Linux, Keychain on
// macOS, Credential Manager on Windows.
//
// # Libraries
//
// zalando/go-keyring: one API for all three, without cgo. Its calls accept no context and may
// wait for the user to unlock the keyring, so this package adds a timeout.
package keyring

import (
	"errors"
	"os"
	"runtime"
	"strconv"
	"time"

	keyring "github.com/zalando/go-keyring"
)

// Service is the service name under which mcptrack stores its secrets in the keyring.
const Service = "mcptrack"

// patience limits how long a call may take, because a locked keyring prompts its user, who may be
// away.
const patience = 10 * time.Second

// ErrNotFound reports that the keyring does not contain the secret.
var ErrNotFound = keyring.ErrNotFound

var errNoAnswer = errors.New("the keyring does not respond")

// A Ring gives access to the user's keyring, one call at a time. While a locked keyring waits for
// its user, further calls wait and time out instead of prompting the user again.
type Ring struct {
	// turn is a mutex with a timeout: a call sends to it before accessing the keyring and receives
	// from it afterwards. It has capacity 1 and is never closed.
	turn chan struct{}
}

// New returns a Ring for the user's keyring. It does not access the keyring yet.
func New() *Ring { return &Ring{make(chan struct{}, 1)} }

// Get returns the secret stored for the account. If the keyring does not answer in time, Get
// returns an error; the call to the keyring cannot be interrupted and continues in the background
// until the keyring answers. The same applies to Set and Delete.
func (r *Ring) Get(account string) (string, error) {
	return r.bounded(func() (string, error) { return keyring.Get(Service, account) })
}

// Set stores a secret for the account, replacing any previous secret.
func (r *Ring) Set(account, secret string) error {
	_, err := r.bounded(func() (string, error) { return "", keyring.Set(Service, account, secret) })
	return err
}

// Delete deletes the account's secret. It is not an error if the secret does not exist.
func (r *Ring) Delete(account string) error {
	_, err := r.bounded(func() (string, error) { return "", keyring.Delete(Service, account) })
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// Get calls [Ring.Get] on a new Ring, for callers that need only one secret.
func Get(account string) (string, error) { return New().Get(account) }

// bounded accesses the keyring, if it is reachable, and waits for at most patience.
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
	done := make(chan result, 1) // receives one result; never closed
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

// reachable returns an error if the keyring needs a D-Bus session bus and none is running, because
// otherwise the library would start one.
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
