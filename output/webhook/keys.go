package webhook

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// Keys encrypts the stored subscriptions with AES-256-GCM. Printing it does not reveal the keys.
// With a nil *Keys, subscriptions are stored in plain text.
type Keys struct{ all []key } // the first one encrypts

type key struct {
	id   string
	aead cipher.AEAD
}

const keyBytes = 32

// ReadKeys reads keys from a file that only its owner may read. Each line contains 32 random bytes
// in base64. The first key encrypts and all keys decrypt, which allows key rotation.
func ReadKeys(path string) (*Keys, error) {
	lines, err := secretfile.ReadLines(path)
	if err != nil {
		return nil, err
	}
	k := &Keys{}
	for _, words := range lines {
		raw, err := base64.StdEncoding.DecodeString(words[0])
		if err != nil {
			raw, err = base64.RawStdEncoding.DecodeString(words[0])
		}
		if err != nil || len(words) != 1 || len(raw) != keyBytes {
			return nil, &secretfile.RefusedError{Path: path, Problem: "a line is not 32 bytes in base64; create one with: openssl rand -base64 32"}
		}
		one, err := newKey(raw)
		if err != nil {
			return nil, err
		}
		k.all = append(k.all, one)
	}
	if len(k.all) == 0 {
		return nil, &secretfile.RefusedError{Path: path, Problem: "the file contains no key; create one with: openssl rand -base64 32"}
	}
	return k, nil
}

func newKey(raw []byte) (key, error) {
	block, err := aes.NewCipher(raw)
	if err != nil {
		return key{}, err
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return key{}, err
	}
	sum := sha256.Sum256(append([]byte("mcptrack events key\x00"), raw...))
	return key{hex.EncodeToString(sum[:4]), aead}, nil
}

// String returns a placeholder, so that printing does not reveal the keys.
func (k *Keys) String() string { return "[redacted]" }

// GoString returns the same placeholder as String.
func (k *Keys) GoString() string { return k.String() }

// sealed is the stored form of a subscription. With Keys, all of it is encrypted, because even a
// URL may grant access.
type sealed struct {
	Version int     `json:"version"`
	Key     string  `json:"key,omitempty"` // digest of the encryption key
	Data    []byte  `json:"data,omitempty"`
	Plain   *record `json:"plain,omitempty"` // used only without Keys
}

// otherKeyError reports a record that was encrypted with a key that this process does not have.
type otherKeyError struct{ key string }

func (e *otherKeyError) Error() string {
	return fmt.Sprintf("subscriptions on the NATS cluster are encrypted with key %s, which is not in --events-key-file; "+
		"use the key file of the other processes, or add the line with that key to this file (the first key encrypts, and all keys decrypt)", printable.Line(e.key, 16))
}

var errDamaged = errors.New("the record is damaged or from a newer version")

// seal returns the stored form of a record, encrypted unless k is nil. An encrypted record can be
// decrypted only under its own ID.
func (k *Keys) seal(r record) ([]byte, error) {
	if k == nil {
		return json.Marshal(sealed{Version: storedVersion, Plain: &r})
	}
	plain, err := json.Marshal(r)
	if err != nil {
		return nil, err
	}
	one := k.all[0]
	return json.Marshal(sealed{Version: storedVersion, Key: one.id, Data: one.aead.Seal(nil, nil, plain, []byte(r.ID))})
}

// open decodes the stored record with this ID. With keys it rejects unencrypted records, because
// anyone with write access to the cluster could have created them.
func (k *Keys) open(id string, data []byte) (r record, err error) {
	var s sealed
	if json.Unmarshal(data, &s) != nil || s.Version != storedVersion {
		return r, errDamaged
	}
	if k == nil {
		if s.Plain == nil || s.Plain.ID != id {
			return r, errDamaged
		}
		return *s.Plain, nil
	}
	i := slices.IndexFunc(k.all, func(one key) bool { return one.id == s.Key })
	if i < 0 {
		return r, &otherKeyError{s.Key}
	}
	plain, err := k.all[i].aead.Open(nil, nil, s.Data, []byte(id))
	if err != nil || json.Unmarshal(plain, &r) != nil || r.ID != id {
		return record{}, errDamaged
	}
	return r, nil
}
