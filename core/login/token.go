package login

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/oauth2"
	"golang.org/x/oauth2/clientcredentials"

	"github.com/mcptrack/mcptrack/core/guarded"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// maxToken is the maximum length of a token in bytes, because it must fit into a header.
const maxToken = 32 << 10

// tokens holds the secrets of a login.
type tokens struct {
	Access  string    `json:"access"`
	Refresh string    `json:"refresh,omitempty"`
	Expiry  time.Time `json:"expiry,omitzero"` // when Access expires; zero if unknown
	Secret  string    `json:"clientSecret,omitempty"`
}

// requestToken sends a request to the token endpoint of a login and stores the response in l. grant
// contains the parameters specific to the grant.
func (l *Login) requestToken(ctx context.Context, client *http.Client, t Target, doing string, grant url.Values) error {
	cc := clientcredentials.Config{ClientID: l.Client.ID, TokenURL: l.TokenEndpoint, EndpointParams: grant, AuthStyle: oauth2.AuthStyleInParams}
	if l.Resource != "" {
		grant.Set("resource", l.Resource)
	}
	switch l.Client.Method {
	case methodJWT:
		assertion, err := clientAssertion(t.OAuth.PrivateKeyFile, l.Client.ID, l.Audience)
		if err != nil {
			return err
		}
		grant.Set("client_assertion_type", "urn:ietf:params:oauth:client-assertion-type:jwt-bearer")
		grant.Set("client_assertion", assertion)
	case methodBasic:
		cc.ClientSecret, cc.AuthStyle = l.Client.secret.Reveal(), oauth2.AuthStyleInHeader
	case methodPost:
		cc.ClientSecret = l.Client.secret.Reveal()
	}
	began := time.Now()
	got, err := cc.Token(context.WithValue(ctx, oauth2.HTTPClient, client))
	if err != nil {
		return tokenError(doing, err)
	}
	if kind := got.TokenType; kind != "" && !strings.EqualFold(kind, "bearer") {
		return fmt.Errorf("the authorization server issued a token of type %s, which is not supported", printable.Line(kind, 60))
	}
	if !validToken(got.AccessToken) || got.RefreshToken != "" && !validToken(got.RefreshToken) {
		return errors.New("the authorization server issued a token that is too long or not printable")
	}
	l.tokens.Access, l.tokens.Refresh, l.tokens.Expiry = got.AccessToken, got.RefreshToken, got.Expiry
	l.Obtained, l.Refused, l.Renewing = began, "", time.Time{}
	if scope, ok := got.Extra("scope").(string); ok {
		l.Scopes = usableScopes(strings.Fields(scope))
	}
	return nil
}

func validToken(s string) bool { return len(s) <= maxToken && printable.VisibleASCII(s) }

// tokenError converts the error from a token request and removes secrets that the response may
// contain.
func tokenError(doing string, err error) error {
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		e := &AnswerError{Doing: doing, Code: refused.ErrorCode, Description: refused.ErrorDescription}
		if refused.Response != nil {
			e.Status = refused.Response.StatusCode
		}
		return e
	}
	if text := err.Error(); strings.Contains(text, "cannot parse") {
		return errors.New("the token endpoint's response is not JSON of the expected form")
	} else if strings.Contains(text, "missing access_token") {
		return errors.New("the token endpoint's response contains no token")
	}
	return fmt.Errorf("token endpoint: %w", guarded.WithoutQuery(err))
}

// revoke asks the authorization server to revoke the login's token (RFC 7009).
func (l *Login) revoke(ctx context.Context, client *http.Client) error {
	token, hint := l.tokens.Refresh, "refresh_token"
	if token == "" {
		token, hint = l.tokens.Access, "access_token"
	}
	if l.RevocationEndpoint == "" || token == "" || l.Client.Method == methodJWT {
		return nil
	}
	form := url.Values{"token": {token}, "token_type_hint": {hint}}
	if l.Client.Method != methodBasic {
		form.Set("client_id", l.Client.ID)
	}
	if l.Client.Method == methodPost {
		form.Set("client_secret", l.Client.secret.Reveal())
	}
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, l.RevocationEndpoint, strings.NewReader(form.Encode()))
	if err != nil {
		return errors.New("the revocation endpoint is not a URL")
	}
	q.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if l.Client.Method == methodBasic {
		q.SetBasicAuth(url.QueryEscape(l.Client.ID), url.QueryEscape(l.Client.secret.Reveal()))
	}
	p, err := client.Do(q)
	if err != nil {
		return guarded.WithoutQuery(err)
	}
	defer func() { _ = p.Body.Close() }()
	if p.StatusCode >= 300 {
		return &AnswerError{Doing: "to revoke the token", Status: p.StatusCode}
	}
	return nil
}

// assertionLife is how long a client assertion is valid.
const assertionLife = 2 * time.Minute

// clientAssertion returns a signed assertion that proves possession of the client's key (RFC 7523).
// Its only audience is the authorization server, identified by its issuer if the issuer is certain,
// as draft-ietf-oauth-rfc7523bis requires, and otherwise by its token endpoint; see
// [discovery.audience].
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

// signingKey parses a private key in PEM format and selects the signing method for it.
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
		return nil, nil, errors.New("the file contains no private key, or one that is protected by a passphrase")
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
