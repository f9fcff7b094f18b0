package keyring

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	keyring "github.com/zalando/go-keyring"
)

func TestKeyring(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
	keyring.MockInit()
	ring := New()
	if err := ring.Set("docs", "s3cret"); err != nil {
		t.Fatal(err)
	}
	if got, err := ring.Get("docs"); got != "s3cret" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := ring.Get("other"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
	if err := ring.Delete("docs"); err != nil {
		t.Error(err)
	}
	if err := ring.Delete("docs"); err != nil {
		t.Errorf("the second time: %v", err)
	}
	if _, err := ring.Get("docs"); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted, and got with %v", err)
	}
	keyring.MockInitWithError(errors.New("no bus"))
	if _, err := ring.Get("docs"); err == nil {
		t.Error("no error of a keyring that cannot be reached")
	}
}

// A locked keyring prompts its user once, however often it is called meanwhile, and works again
// after the user answers.
func TestLockedKeyringIsAskedOnce(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
	synctest.Test(t, func(t *testing.T) {
		ring := New()
		answered := make(chan struct{}) // closed when the user answers
		var asked atomic.Int32
		call := func() (string, error) {
			asked.Add(1)
			<-answered
			return "s3cret", nil
		}
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if _, err := ring.bounded(call); !errors.Is(err, errNoAnswer) {
					t.Errorf("%v", err)
				}
			})
		}
		all.Wait()
		if _, err := ring.bounded(call); !errors.Is(err, errNoAnswer) {
			t.Errorf("later: %v", err)
		}
		if n := asked.Load(); n != 1 {
			t.Errorf("asked %d times", n)
		}
		close(answered)
		synctest.Wait()
		if got, err := ring.bounded(call); got != "s3cret" || err != nil || asked.Load() != 2 {
			t.Errorf("after the answer: %q, %v, asked %d times", got, err, asked.Load())
		}
	})
}
