package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// maxKey bounds an item's key, in bytes: keys are shown, compared and published.
const maxKey = 8 << 10

// LimitError is the error for a list that exceeds the [Limits], or whose cursors repeat.
type LimitError struct {
	Method string
	Limit  string // "100 pages", "10000 items", "33554432 bytes", "repeated cursor"
}

func (e *LimitError) Error() string { return fmt.Sprintf("%s: limit exceeded: %s", e.Method, e.Limit) }

// List fetches all pages of a list, within one request timeout. If the server does not declare
// the kind, the list is empty and no request is sent; the list of templates is also empty if
// the server has resources but not that method. Items that are not objects or have no key, or
// one of more than 8 KiB, are left out and counted as [DroppedItems].
//
// A list is not a snapshot: its pages may be inconsistent if the list changes meanwhile, which
// raises another signal.
func (s *Session) List(ctx context.Context, k catalog.Kind) (catalog.List, error) {
	if !s.Info().Capabilities.Has(k) {
		return catalog.List{}, nil
	}
	limit := s.requests.requestTimeout()
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s: %w (%s for all pages)", k.Method(), errDeadline, limit))
	defer cancel()
	items, err := s.pages(ctx, k)
	if k == catalog.Templates && errors.Is(err, ErrUnsupported) {
		return catalog.List{}, nil
	}
	if err != nil {
		return nil, err
	}
	list := catalog.NewList(items)
	if k == catalog.Tools {
		s.requests.conn.LearnTools(list)
	}
	return list, nil
}

func (s *Session) pages(ctx context.Context, k catalog.Kind) ([]catalog.Item, error) {
	var items []catalog.Item
	var params map[string]any // nil: the first page
	seen := map[string]struct{}{}
	malformed, size := 0, int64(0)
	defer func() {
		if malformed > 0 {
			s.signals.drop(DroppedItems, malformed)
			s.signals.ring()
		}
	}()
	for range s.opts.Limits.MaxPages {
		raw, err := s.requests.request(ctx, k.Method(), params)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.Method(), err)
		}
		if size += int64(len(raw)); size > s.opts.Limits.MaxList {
			return nil, &LimitError{k.Method(), fmt.Sprintf("%d bytes", s.opts.Limits.MaxList)}
		}
		page, cursor, err := decodePage(k, raw)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", k.Method(), err)
		}
		if len(items)+len(page) > s.opts.Limits.MaxItems {
			return nil, &LimitError{k.Method(), fmt.Sprintf("%d items", s.opts.Limits.MaxItems)}
		}
		for _, rawItem := range page {
			it, err := catalog.NewItem(k, rawItem)
			if err != nil || len(it.Key) > maxKey {
				malformed++
				continue
			}
			items = append(items, it)
		}
		if cursor == nil {
			return items, nil
		}
		if _, again := seen[*cursor]; again {
			return nil, &LimitError{k.Method(), "repeated cursor"}
		}
		seen[*cursor] = struct{}{}
		params = map[string]any{"cursor": *cursor}
	}
	return nil, &LimitError{k.Method(), fmt.Sprintf("%d pages", s.opts.Limits.MaxPages)}
}

// decodePage decodes one page. An empty string is a valid cursor; only a missing (or null) one
// ends the list.
func decodePage(k catalog.Kind, raw json.RawMessage) (items []json.RawMessage, cursor *string, err error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(raw, &members); err != nil {
		return nil, nil, fmt.Errorf("malformed result: %w", err)
	}
	list, ok := members[k.Field()]
	if !ok {
		return nil, nil, fmt.Errorf("malformed result: no %q", k.Field())
	}
	if err := json.Unmarshal(list, &items); err != nil {
		return nil, nil, fmt.Errorf("malformed result: %q: %w", k.Field(), err)
	}
	if c, ok := members["nextCursor"]; ok {
		if err := json.Unmarshal(c, &cursor); err != nil {
			return nil, nil, fmt.Errorf("malformed result: nextCursor: %w", err)
		}
	}
	return items, cursor, nil
}
