// Package keyring keeps secrets in the user's keyring: Secret Service on Linux,
// Keychain on macOS, Credential Manager on Windows.
//
// # Libraries
//
// zalando/go-keyring: one API for the three, without cgo. Its calls take no context
// and may wait for a person to unlock the keyring, so that ours are bounded.
package keyring

import (
	"errors"
	"os"
	"runtime"
	"strconv"
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
// cannot be interrupted. The same holds for Set and Delete.
func Get(account string) (string, error) {
	return bounded(func() (string, error) { return keyring.Get(Service, account) })
}

// Set stores the secret of the account, in place of the one that is there.
func Set(account, secret string) error {
	_, err := bounded(func() (string, error) { return "", keyring.Set(Service, account, secret) })
	return err
}

// Delete deletes the secret of the account. One that is not there is no error.
func Delete(account string) error {
	_, err := bounded(func() (string, error) { return "", keyring.Delete(Service, account) })
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

func bounded(call func() (string, error)) (string, error) {
	if err := reachable(); err != nil {
		return "", err
	}
	type result struct {
		secret string
		err    error
	}
	done := make(chan result, 1) // sent to once; never closed
	go func() {
		secret, err := call()
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

// reachable fails where there is no session bus: the library would start one.
func reachable() error {
	switch runtime.GOOS {
	case "darwin", "windows":
		return nil
	}
	if os.Getenv("DBUS_SESSION_BUS_ADDRESS") != "" {
		return nil
	}
	if _, err := os.Stat("/run/user/" + strconv.Itoa(os.Getuid()) + "/bus"); err != nil {
		return errors.New("there is no session bus")
	}
	return nil
}
