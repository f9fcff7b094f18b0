package login

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// assertionLife is how long a client assertion is valid.
const assertionLife = 2 * time.Minute

// clientAssertion returns a signed assertion that proves that we have the client's key (RFC
// 7523). Its only audience is an authorization server, by its issuer if that is known for
// certain, as draft-ietf-oauth-rfc7523bis demands, or by its token endpoint; see
// [place.audience].
func clientAssertion(keyFile, clientID, audience string) (string, error) {
	text, err := secretfile.ReadAll(keyFile)
	if err != nil {
		return "", fmt.Errorf("privateKeyFile: %w", err)
	}
	key, method, err := signingKey(text)
	if err != nil {
		return "", fmt.Errorf("privateKeyFile: %s: %w", printable.Line(keyFile, 256), err)
	}
	now := time.Now()
	signed, err := jwt.NewWithClaims(method, jwt.RegisteredClaims{
		Issuer: clientID, Subject: clientID, Audience: jwt.ClaimStrings{audience}, ID: rand.Text(),
		IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(now.Add(assertionLife)),
	}).SignedString(key)
	if err != nil {
		return "", fmt.Errorf("privateKeyFile: %s: signing with the key failed", printable.Line(keyFile, 256))
	}
	return signed, nil
}

// signingKey reads a PEM key and chooses how to sign with it.
func signingKey(text []byte) (crypto.PrivateKey, jwt.SigningMethod, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, nil, errors.New("the file is not PEM")
	}
	var key any
	var err error
	switch block.Type {
	case "RSA PRIVATE KEY":
		key, err = x509.ParsePKCS1PrivateKey(block.Bytes)
	case "EC PRIVATE KEY":
		key, err = x509.ParseECPrivateKey(block.Bytes)
	default:
		key, err = x509.ParsePKCS8PrivateKey(block.Bytes)
	}
	if err != nil {
		return nil, nil, errors.New("the file has no private key, or one with a passphrase")
	}
	switch k := key.(type) {
	case *rsa.PrivateKey:
		return k, jwt.SigningMethodRS256, nil
	case ed25519.PrivateKey:
		return k, jwt.SigningMethodEdDSA, nil
	case *ecdsa.PrivateKey:
		switch k.Curve.Params().BitSize {
		case 256:
			return k, jwt.SigningMethodES256, nil
		case 384:
			return k, jwt.SigningMethodES384, nil
		case 521:
			return k, jwt.SigningMethodES512, nil
		}
	}
	return nil, nil, errors.New("the key is not an RSA, ECDSA or Ed25519 key")
}
