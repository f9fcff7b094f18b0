package standardwebhooks

import (
	"net/http"
	"strconv"
	"testing"
	"time"
)

// Messages of Svix differ from the standard only in the names of their headers, and its secrets may
// begin with a version.
func TestSvix(t *testing.T) {
	t.Parallel()
	const bare = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	now, body := time.Now(), []byte(`{}`)
	sent, err := ParseSecret(bare)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := Sign([]Secret{sent}, "msg_1", now, body)
	if err != nil {
		t.Fatal(err)
	}
	secret, err := ParseSecret("v1," + bare)
	if err != nil {
		t.Fatal(err)
	}
	svix := func(prefix string) http.Header {
		h := http.Header{}
		h.Set(prefix+"-id", "msg_1")
		h.Set(prefix+"-timestamp", strconv.FormatInt(now.Unix(), 10))
		h.Set(prefix+"-signature", signature)
		return h
	}
	for _, prefix := range []string{"svix", "webhook"} {
		h := svix(prefix)
		if id, _, ok := Identify(h); !ok || id != "msg_1" || !secret.Signed(body, h) || secret.Signed([]byte(`[]`), h) {
			t.Errorf("a message with %s-… headers: %q %t", prefix, id, ok)
		}
	}
	mixed := svix("svix")
	mixed.Set("webhook-id", "msg_2")
	if id, _, ok := Identify(mixed); ok || secret.Signed(body, mixed) {
		t.Errorf("a message with headers of both is %q", id)
	}
}
