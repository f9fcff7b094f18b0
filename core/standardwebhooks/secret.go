package standardwebhooks

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"net/http"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/mcptrack/mcptrack/core/config"
)

// Secret signs and verifies the messages to one endpoint. Printing it does not reveal it.
type Secret struct{ key []byte }

// newSecret returns a random secret, and its encoded form for the server.
func newSecret() (Secret, string) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	return Secret{key}, "whsec_" + base64.StdEncoding.EncodeToString(key)
}

// ParseSecret parses a secret in the format of [config.WebhookKey].
func ParseSecret(text string) (Secret, error) {
	key, ok := config.WebhookKey(text)
	if !ok {
		return Secret{}, errors.New("the secret must be whsec_ followed by 24 to 64 bytes in standard base64")
	}
	return Secret{key}, nil
}

// String returns a placeholder, so that printing does not reveal the secret.
func (s Secret) String() string { return "[redacted]" }

// GoString returns the same placeholder as String.
func (s Secret) GoString() string { return s.String() }

// Sign returns the webhook-signature header for a message. It contains one signature per secret.
func Sign(secrets []Secret, id string, at time.Time, body []byte) (string, error) {
	var all []string
	for _, s := range secrets {
		wh, err := standardwebhooks.NewWebhookRaw(s.key)
		if err != nil {
			return "", err
		}
		one, err := wh.Sign(id, at, body)
		if err != nil {
			return "", err
		}
		all = append(all, one)
	}
	return strings.Join(all, " "), nil
}

// Signed reports whether the headers contain a signature that was made with the secret over the id
// and time in the headers and the body. It does not check whether the time is recent; see [Recent].
func (s Secret) Signed(body []byte, h http.Header) bool {
	wh, err := standardwebhooks.NewWebhookRaw(s.key)
	return err == nil && len(s.key) > 0 && wh.VerifyIgnoringTimestamp(body, Headers(h)) == nil
}
