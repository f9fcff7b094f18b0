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
	"maps"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/internal/rawjson"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
)

// maxKey limits the length of an item's key in bytes, because keys are displayed, compared and
// published.
const maxKey = 8 << 10

const maxNamed = 5 // maximum number of items that one warning names

// List fetches all pages of a list within one request timeout. If the server does not declare the
// kind, the list is empty and no request is sent. The list of templates is also empty if the server
// has resources but does not support the method. Items that are not objects, or whose key is
// missing or longer than 8 KiB, are omitted and counted as [DroppedItems]; a OneShot session logs which.
// For skills, see
// [Session.ListSkills]. A list that exceeds the [Limits], or whose cursors are wrong, ends there, and a
// warning is logged once.
//
// A list is not a snapshot: if it changes while its pages are fetched, they may be inconsistent,
// and the change raises another signal.
func (s *Session) List(ctx context.Context, k catalog.Kind) (catalog.List, error) {
	if !s.Info().Capabilities.Has(k) {
		return catalog.List{}, nil
	}
	if k == catalog.Skills {
		skills, err := s.ListSkills(ctx)
		return skills.List, err
	}
	var items []catalog.Item
	malformed, listed := 0, 0
	var which []string // the first of the malformed
	err := s.pages(ctx, k.Method(), k.Field(), func(_ json.RawMessage, page []json.RawMessage) {
		for _, rawItem := range page {
			it, err := catalog.NewItem(k, rawItem)
			if err == nil && len(it.Key) > maxKey {
				err = fmt.Errorf("%s item whose %s is longer than %d KiB", k, k.KeyField(), maxKey>>10)
			}
			listed++
			if err != nil {
				if malformed++; malformed <= maxNamed {
					which = append(which, fmt.Sprintf("%s[%d]: %s", k.Field(), listed-1, printable.Reason(err, 200)))
				}
				continue
			}
			items = append(items, it)
		}
	})
	if malformed > 0 && s.opts.OneShot {
		s.opts.Logger.Warn("the server's list contains items that are left out", "items", malformed, "reason", strings.Join(which, "; "))
	}
	if malformed > 0 {
		s.signals.drop(DroppedItems, malformed)
		s.signals.ring()
	}
	if k == catalog.Templates && errors.Is(err, ErrUnsupported) {
		return catalog.List{}, nil
	}
	if err != nil {
		return nil, err
	}
	list := catalog.NewList(items)
	if k == catalog.Tools {
		s.conn.LearnTools(list)
	}
	return list, nil
}

// pages requests the pages of a list within one request timeout and the [Limits]. add handles the items
// of one page. If the list cannot be followed to its end, but its first page was read, it ends there.
func (s *Session) pages(ctx context.Context, method, field string, add func(page json.RawMessage, items []json.RawMessage)) error {
	timeout, limits := s.requestTimeout(), s.opts.Limits
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("%w (%s for all pages)", errDeadline, timeout))
	defer cancel()
	var params map[string]any // nil for the first page
	seen := map[string]struct{}{}
	size, n := int64(0), 0
	for range limits.MaxPages {
		raw, err := s.request(ctx, method, params)
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		items, next, err := decodePage(field, raw)
		if err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
		room := limits.MaxItems - n
		n += len(items)
		size += int64(len(raw))
		add(raw, items[:min(len(items), room)])
		var cursor string
		switch wrong := json.Unmarshal(next, &cursor); {
		case len(items) > room:
			s.cutShort(method, fmt.Sprintf("it has more than %d items; use --limit items=N to allow more", limits.MaxItems))
			return nil
		case next == nil || cursor == "" && wrong == nil && s.Info().Era != EraModern:
			return nil
		case wrong != nil:
			s.cutShort(method, "its nextCursor is not a string")
			return nil
		case size > limits.MaxList:
			s.cutShort(method, fmt.Sprintf("it has more than %d bytes; use --limit list=SIZE to allow more", limits.MaxList))
			return nil
		}
		if _, again := seen[cursor]; again {
			s.cutShort(method, "its cursor repeats")
			return nil
		}
		seen[cursor] = struct{}{}
		params = map[string]any{"cursor": cursor}
	}
	s.cutShort(method, fmt.Sprintf("it has more than %d pages; use --limit pages=N to allow more", limits.MaxPages))
	return nil
}

// cutShort logs, once in a session, that a list is not followed to its end.
func (s *Session) cutShort(method, why string) {
	s.mu.Lock()
	again := s.cut[method]
	if s.cut == nil {
		s.cut = map[string]bool{}
	}
	s.cut[method] = true
	s.mu.Unlock()
	if !again {
		s.opts.Logger.Warn("a list of the server is not followed to its end", "method", method, "reason", why)
	}
}

// decodePage decodes one page. next is its cursor, or nil if that is missing or null.
func decodePage(field string, raw json.RawMessage) (items []json.RawMessage, next json.RawMessage, err error) {
	var members map[string]json.RawMessage
	if json.Unmarshal(raw, &members) != nil {
		return nil, nil, errors.New("malformed result: not an object")
	}
	list, ok := members[field]
	if !ok {
		return nil, nil, fmt.Errorf("malformed result: no %q", field)
	}
	if items = rawjson.Elements(list); items == nil && string(list) != "null" {
		return nil, nil, fmt.Errorf("malformed result: %q is not a list", field)
	}
	if next = members["nextCursor"]; string(next) == "null" {
		next = nil
	}
	return items, next, nil
}

// Content is the result of a resources/read request.
type Content struct {
	// Raw is the complete result, unchanged.
	Raw json.RawMessage
	// Digest covers, for each entry in order, the URI, the MIME type, the text or decoded blob, and
	// all other members. Members of the result itself (_meta, ttlMs, cacheScope) are not part of the
	// content and are not covered. A member that is null is absent.
	Digest catalog.Digest
	// Size is the total number of bytes of all texts and decoded blobs.
	Size int64
	// MimeType is the first MIME type that an entry specifies, or empty if there is none.
	MimeType string

	text    string
	allText bool
}

// Text returns the concatenated texts of all entries. It reports false if an entry is binary.
func (c *Content) Text() (string, bool) { return c.text, c.allText }

// Read requests a resource from the server, never from a cache. It returns [ErrNotFound] for the
// errors that mean "no such resource" in either era.
func (s *Session) Read(ctx context.Context, uri string) (*Content, error) {
	raw, err := s.request(ctx, mcp.MethodReadResource, map[string]any{"uri": uri})
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", uri, missing(err))
	}
	c, err := newContent(raw)
	if err != nil {
		return nil, fmt.Errorf("read %q: %w", uri, err)
	}
	return c, nil
}

// missing adds [ErrNotFound] to the error of a request for something that a server does not have.
func missing(err error) error {
	if rpc, ok := errors.AsType[*RPCError](err); ok && rpc.Code == mcp.CodeInvalidParams {
		// 2026-07-28 defines no error code for a missing resource: modern servers, and some legacy
		// servers, respond with "invalid params".
		return fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return err
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

// add hashes one entry and removes the known members from the map.
func (c *Content) add(h hash.Hash, text *strings.Builder, entry map[string]json.RawMessage) error {
	maps.DeleteFunc(entry, func(_ string, value json.RawMessage) bool { return string(value) == "null" })
	for _, name := range []string{"uri", "mimeType"} {
		value, _ := takeString(entry, name)
		hashField(h, name, []byte(value))
		if name == "mimeType" && c.MimeType == "" {
			c.MimeType = value
		}
	}
	if t, ok := takeString(entry, "text"); ok {
		hashField(h, "text", []byte(t))
		c.Size += int64(len(t))
		text.WriteString(t)
	} else {
		c.allText = false
		if blob, ok := takeString(entry, "blob"); ok {
			data := decodeBlob(blob)
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

// decodeBlob returns the bytes of a blob. Invalid base64 is returned unchanged, because it can
// still be compared.
func decodeBlob(s string) []byte {
	if data, err := base64.StdEncoding.DecodeString(s); err == nil {
		return data
	}
	if data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(s, "=")); err == nil {
		return data
	}
	return []byte(s)
}

// hashField hashes a field so that no two different sequences of fields have the same hash input.
func hashField(h hash.Hash, name string, value []byte) {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(value)))
	h.Write([]byte(name))
	h.Write(n[:])
	h.Write(value)
}

// takeString removes a string member and returns it.
func takeString(m map[string]json.RawMessage, name string) (s string, ok bool) {
	raw := m[name]
	if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, &s) != nil {
		return "", false
	}
	delete(m, name)
	return s, true
}
