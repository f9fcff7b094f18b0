package standardwebhooks

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"
	"time"
)

const (
	oneSecret   = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	otherSecret = "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
)

// The test vector of the Standard Webhooks libraries.
func TestSignature(t *testing.T) {
	t.Parallel()
	s, err := ParseSecret(oneSecret)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ParseSecret(otherSecret)
	if err != nil {
		t.Fatal(err)
	}
	got, err := Sign([]Secret{s}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; err != nil || got != want {
		t.Errorf("%s, %v", got, err)
	}
	if two, err := Sign([]Secret{s, other}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0), []byte(`{"test": 2432232314}`)); err != nil || !strings.HasPrefix(two, got+" v1,") {
		t.Errorf("two secrets: %s, %v", two, err)
	}
}

// E7: secrets are parsed strictly and never printed.
func TestSecrets(t *testing.T) {
	t.Parallel()
	raw := func(n int) []byte { return []byte(strings.Repeat("\xfb\xff", n)[:n]) }
	for text, ok := range map[string]bool{
		oneSecret: true,
		"whsec_" + base64.StdEncoding.EncodeToString(raw(25)):    true,
		"whsec_" + base64.RawStdEncoding.EncodeToString(raw(25)): true,
		"whsec_" + base64.StdEncoding.EncodeToString(raw(64)):    true,
		"whsec_" + base64.StdEncoding.EncodeToString(raw(65)):    false,
		"whsec_" + base64.StdEncoding.EncodeToString(raw(23)):    false,
		"whsec_" + base64.URLEncoding.EncodeToString(raw(24)):    false,
		strings.TrimPrefix(oneSecret, "whsec_"):                  false,
		oneSecret + "=":                                          false, oneSecret + "\n": false, "whsec_": false, "": false,
	} {
		s, err := ParseSecret(text)
		if (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
		if shown := fmt.Sprintf("%v %+v %#v %s", s, s, s, s); ok && shown != strings.Repeat("[redacted] ", 3)+"[redacted]" {
			t.Errorf("a secret is printed as %s", shown)
		}
	}
}
