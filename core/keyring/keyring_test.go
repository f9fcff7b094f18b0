package keyring

import (
	"errors"
	"testing"

	keyring "github.com/zalando/go-keyring"
)

func TestKeyring(t *testing.T) {
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nowhere")
	keyring.MockInit()
	if err := Set("docs", "s3cret"); err != nil {
		t.Fatal(err)
	}
	if got, err := Get("docs"); got != "s3cret" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Get("other"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
	if err := Delete("docs"); err != nil {
		t.Error(err)
	}
	if err := Delete("docs"); err != nil {
		t.Errorf("the second time: %v", err)
	}
	if _, err := Get("docs"); !errors.Is(err, ErrNotFound) {
		t.Errorf("deleted, and got with %v", err)
	}
	keyring.MockInitWithError(errors.New("no bus"))
	if _, err := Get("docs"); err == nil {
		t.Error("no error of a keyring that cannot be reached")
	}
}
