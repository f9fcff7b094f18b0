package keyring

import (
	"errors"
	"testing"

	keyring "github.com/zalando/go-keyring"
)

func TestGet(t *testing.T) {
	keyring.MockInit()
	if err := keyring.Set(Service, "docs", "s3cret"); err != nil {
		t.Fatal(err)
	}
	if got, err := Get("docs"); got != "s3cret" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := Get("other"); !errors.Is(err, ErrNotFound) {
		t.Errorf("%v", err)
	}
	keyring.MockInitWithError(errors.New("no bus"))
	if _, err := Get("docs"); err == nil {
		t.Error("no error of a keyring that cannot be reached")
	}
}
