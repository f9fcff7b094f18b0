package serve

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mcptrack/mcptrack/core/subscriptions"
)

// Catalog is all that a server lists. Items are JSON objects as the protocol has
// them, in the order in which they are to be listed; what is no JSON object is left
// out.
type Catalog struct {
	Tools, Prompts, Resources, Templates []json.RawMessage
}

const (
	// keptCatalogs are how many catalogs later pages can come from.
	keptCatalogs = 8
	pageBytes    = 1 << 20
)

// catalogs are the present catalog and those before it whose walks may not have
// ended.
type catalogs struct {
	// epoch makes cursors of another server, or of a run before, unknown.
	epoch string

	mu   sync.Mutex
	gen  uint64
	kept map[uint64]*Catalog
	// mirror has the arguments of the present tools that come in headers as well.
	mirror map[string][]mirrored
	// walked are the generations that cursors were given out for; others need not
	// be kept.
	walked map[uint64]bool
}

func (c *catalogs) start() {
	c.epoch = rand.Text()[:8]
	c.kept, c.walked = map[uint64]*Catalog{0: {}}, make(map[uint64]bool)
}

func (c *catalogs) set(next Catalog) (changed subscriptions.Lists) {
	c.mu.Lock()
	known := c.kept[c.gen]
	c.mu.Unlock()
	next = Catalog{
		Tools: objects(next.Tools, known.Tools), Prompts: objects(next.Prompts, known.Prompts),
		Resources: objects(next.Resources, known.Resources), Templates: objects(next.Templates, known.Templates),
	}
	mirror := mirroredArguments(next.Tools)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.kept[c.gen]
	// A list that is as before is the one before, so that few copies are kept.
	replace := func(old []json.RawMessage, list *[]json.RawMessage) bool {
		if !slices.EqualFunc(old, *list, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			return true
		}
		*list = old
		return false
	}
	changed.Tools = replace(now.Tools, &next.Tools)
	changed.Prompts = replace(now.Prompts, &next.Prompts)
	changed.Resources = replace(now.Resources, &next.Resources)
	if replace(now.Templates, &next.Templates) {
		changed.Resources = true
	}
	if !changed.Any() {
		return changed
	}
	if !c.walked[c.gen] {
		delete(c.kept, c.gen)
	}
	c.gen++
	c.kept[c.gen], c.mirror = &next, mirror
	if c.gen >= keptCatalogs {
		delete(c.kept, c.gen-keptCatalogs)
		delete(c.walked, c.gen-keptCatalogs)
	}
	return changed
}

// objects are the items that are JSON objects, each in one line. Most are known
// from the list before, at the same place, and need not be looked at again.
func objects(items, known []json.RawMessage) []json.RawMessage {
	clean := make([]json.RawMessage, 0, len(items))
	for i, item := range items {
		if i < len(known) && bytes.Equal(item, known[i]) {
			clean = append(clean, known[i])
			continue
		}
		if !json.Valid(item) {
			continue
		}
		if item = tidy(item); item[0] == '{' {
			clean = append(clean, item)
		}
	}
	return clean
}

// page returns a part of a list, and the cursor of the next part or "". A cursor
// names the catalog that the first page came from.
func (c *catalogs) page(cursor string, size int, of func(*Catalog) []json.RawMessage) (items []json.RawMessage, next string, err *Error) {
	gen, from, valid := uint64(0), 0, true
	if cursor != "" {
		gen, from, valid = c.parseCursor(cursor)
	}
	if !valid {
		return nil, "", refuse(CodeInvalidParams, "invalid cursor")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cursor == "" {
		gen = c.gen
	}
	catalog := c.kept[gen]
	if catalog == nil {
		return nil, "", refuse(CodeInvalidParams, "the cursor has expired: the list has changed since, start again")
	}
	list := of(catalog)
	if from > len(list) {
		return nil, "", refuse(CodeInvalidParams, "invalid cursor")
	}
	to, total := from, 0
	for to < len(list) && to-from < size && total <= pageBytes {
		total += len(list[to])
		to++
	}
	if to < len(list) {
		next = fmt.Sprintf("%s.%d.%d", c.epoch, gen, to)
		c.walked[gen] = true
	}
	return list[from:to], next, nil
}

func (c *catalogs) mirrored(tool string) []mirrored {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mirror[tool]
}

func (c *catalogs) parseCursor(cursor string) (gen uint64, from int, valid bool) {
	parts := strings.Split(cursor, ".")
	if len(parts) != 3 || parts[0] != c.epoch {
		return 0, 0, false
	}
	gen, err1 := strconv.ParseUint(parts[1], 10, 64)
	from, err2 := strconv.Atoi(parts[2])
	return gen, from, err1 == nil && err2 == nil && from > 0
}

// listResult encodes a page, with more members after it.
func listResult(field string, items []json.RawMessage, next string, more []member) json.RawMessage {
	size := len(field) + len(next) + 512
	for _, item := range items {
		size += len(item) + 1
	}
	b := append(make([]byte, 0, size), `{"`...)
	b = append(append(b, field...), `":[`...)
	for i, item := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, item...)
	}
	b = append(b, ']')
	if next != "" {
		b = append(append(append(b, `,"nextCursor":"`...), next...), '"')
	}
	return append(appendMembers(b, false, more), '}')
}
