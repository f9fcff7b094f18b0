package webhook

import (
	"encoding/base64"
	"errors"
	"strings"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const (
	secretPrefix = "whsec_"
	minSecret    = 24 // bytes
	maxSecret    = 64
)

// Secret signs the messages to one endpoint. It cannot be printed.
type Secret struct{ key []byte }

// ParseSecret reads a secret: whsec_ and 24 to 64 bytes in standard base64, padded or
// not. The URL-safe alphabet is refused, as the common libraries cannot read it.
func ParseSecret(text string) (Secret, error) {
	bad := errors.New("the secret must be whsec_ and 24 to 64 bytes in standard base64")
	encoded, ok := strings.CutPrefix(text, secretPrefix)
	if !ok || strings.ContainsAny(encoded, "\r\n") {
		return Secret{}, bad
	}
	key, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(encoded, "="))
	if padded := strings.HasSuffix(encoded, "="); err != nil || padded && base64.StdEncoding.EncodeToString(key) != encoded || len(key) < minSecret || len(key) > maxSecret {
		return Secret{}, bad
	}
	return Secret{key}, nil
}

// String does not reveal the secret.
func (s Secret) String() string { return "[redacted]" }

// GoString is String.
func (s Secret) GoString() string { return s.String() }

// signatures returns the header with one signature by each of the secrets.
func signatures(secrets []Secret, id string, at time.Time, body []byte) (string, error) {
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
