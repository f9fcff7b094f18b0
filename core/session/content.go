package session

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"strings"
	"unicode/utf8"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// Content is what a server answered to resources/read.
type Content struct {
	// Raw is the whole result.
	Raw json.RawMessage
	// Digest covers, entry by entry and in order, the URI, the MIME type, the text or the
	// decoded blob, and any other members of the entry, as they were before decoding (see
	// [catalog.Lossless]). Members of the result itself (_meta, ttlMs, cacheScope) are not
	// content and are not covered.
	Digest catalog.Digest
	// Size is the number of bytes of all texts and decoded blobs.
	Size int64
	// MimeType is the type of the first entry that has one; "" if none has.
	MimeType string

	text    string
	allText bool
}

// Text returns the concatenated texts of all entries. It reports false if an entry is binary.
func (c *Content) Text() (string, bool) { return c.text, c.allText }

// Read requests a resource from the server, never from a cache. An error that means "no such
// resource" in any era is [ErrNotFound].
func (s *Session) Read(ctx context.Context, uri string) (*Content, error) {
	raw, err := s.requests.request(ctx, mcp.MethodReadResource, map[string]any{"uri": uri})
	if rpc, ok := errors.AsType[*RPCError](err); ok && rpc.Code == mcp.CodeInvalidParams {
		// 2026-07-28 defines no error code for a missing resource; its servers answer with
		// "invalid params", as some legacy servers do.
		return nil, fmt.Errorf("read %q: %w: %w", uri, ErrNotFound, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", uri, err)
	}
	c, err := newContent(raw)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", uri, err)
	}
	return c, nil
}

func newContent(raw json.RawMessage) (*Content, error) {
	var result struct {
		Contents []map[string]json.RawMessage `json:"contents"`
	}
	if err := json.Unmarshal(raw, &result); err != nil {
		return nil, fmt.Errorf("malformed result: %w", err)
	}
	if result.Contents == nil {
		return nil, errors.New("malformed result: no contents")
	}
	c := &Content{Raw: raw, allText: true}
	h := sha256.New()
	var text strings.Builder
	for i, entry := range result.Contents {
		if err := c.add(h, &text, entry); err != nil {
			return nil, fmt.Errorf("malformed result: contents[%d]: %w", i, err)
		}
	}
	h.Sum(c.Digest[:0])
	if c.allText {
		c.text = text.String()
	}
	return c, nil
}

// add hashes one entry; it removes the known members from the map.
func (c *Content) add(h hash.Hash, text *strings.Builder, entry map[string]json.RawMessage) error {
	for _, name := range []string{"uri", "mimeType"} {
		value, exact, _ := takeString(entry, name)
		hashField(h, name, exact)
		if name == "mimeType" && c.MimeType == "" {
			c.MimeType = value
		}
	}
	if t, exact, ok := takeString(entry, "text"); ok {
		hashField(h, "text", exact)
		c.Size += int64(len(t))
		text.WriteString(t)
	} else {
		c.allText = false
		if _, exact, ok := takeString(entry, "blob"); ok {
			data := decodeBlob(string(exact))
			hashField(h, "blob", data)
			c.Size += int64(len(data))
		}
	}
	if len(entry) == 0 {
		hashField(h, "rest", nil)
		return nil
	}
	raw, err := json.Marshal(entry)
	if err != nil {
		return err
	}
	d, err := catalog.Fingerprint(raw)
	if err != nil {
		return err
	}
	hashField(h, "rest", d[:])
	return nil
}

// decodeBlob returns the bytes of a blob. A blob that is not valid base64 is used as it is: it
// can still be compared.
func decodeBlob(s string) []byte {
	if data, err := base64.StdEncoding.DecodeString(s); err == nil {
		return data
	}
	if data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "=")); err == nil {
		return data
	}
	return []byte(s)
}

// hashField writes a field so that no two sequences of fields hash alike.
func hashField(h hash.Hash, name string, value []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(value)))
	h.Write([]byte(name))
	h.Write(n[:])
	h.Write(value)
}

// takeString removes a string member and returns it, and the bytes that represent it in a
// digest.
func takeString(m map[string]json.RawMessage, name string) (s string, exact []byte, ok bool) {
	raw := m[name]
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", nil, false
	}
	delete(m, name)
	exact = []byte(s)
	if strings.ContainsRune(s, utf8.RuneError) { // decoding may have replaced invalid bytes by it
		var spelled string
		if json.Unmarshal(catalog.Lossless(raw), &spelled) == nil {
			exact = []byte(spelled)
		}
	}
	return s, exact, true
}
