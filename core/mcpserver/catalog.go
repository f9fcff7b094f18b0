package mcpserver

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/mcptrack/mcptrack/core/internal/subscriptions"
	"github.com/mcptrack/mcptrack/core/mcp"
)

// Catalog contains all tools, prompts, resources, resource templates and skills that a server lists.
// Items are JSON objects as defined by the protocol, in list order; items that are not objects are
// skipped. Skills are listed only with Options.Skills. As the protocol has no notification for skills,
// clients are notified that the resources changed.
type Catalog struct {
	Tools, Prompts, Resources, Templates, Skills []json.RawMessage
}

const (
	maxGenerations = 8       // number of catalogs whose cursors stay valid
	pageBytes      = 1 << 20 // a page ends with the item that makes it exceed this size
)

// catalogs stores the current catalog and the earlier catalogs through which clients may still be
// paging.
type catalogs struct {
	// epoch is part of every cursor, so that cursors from another server or an earlier run are
	// rejected.
	epoch string

	mu          sync.Mutex
	gen         uint64 // generation number of the current catalog
	generations map[uint64]*Catalog
	// mirror stores, by tool name, the arguments that clients repeat in HTTP headers.
	mirror map[string][]mirrored
	// digests caches the digests of the current lists, by method.
	digests map[string]string
	// paged contains the generations for which a cursor was issued. Any other generation is dropped
	// when it is replaced.
	paged map[uint64]bool
}

func (c *catalogs) start() {
	c.epoch = rand.Text()[:8]
	c.generations, c.paged = map[uint64]*Catalog{0: {}}, make(map[uint64]bool)
}

// set replaces the catalog and returns which lists changed.
func (c *catalogs) set(next Catalog) (changed subscriptions.Lists) {
	c.mu.Lock()
	known := c.generations[c.gen]
	c.mu.Unlock()
	next = next.clean(*known)
	mirror := mirroredArguments(next.Tools)
	c.mu.Lock()
	defer c.mu.Unlock()
	if changed = next.replace(c.generations[c.gen]); !changed.Any() {
		return changed
	}
	if !c.paged[c.gen] {
		delete(c.generations, c.gen)
	}
	c.gen++
	c.generations[c.gen], c.mirror, c.digests = &next, mirror, nil
	if c.gen >= maxGenerations {
		delete(c.generations, c.gen-maxGenerations)
		delete(c.paged, c.gen-maxGenerations)
	}
	return changed
}

// replace returns which lists of c differ from those of was. Where a list is equal, c reuses the
// slice of was, so that generations share memory.
func (c *Catalog) replace(was *Catalog) (changed subscriptions.Lists) {
	differs := func(old []json.RawMessage, list *[]json.RawMessage) bool {
		if !slices.EqualFunc(old, *list, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) }) {
			return true
		}
		*list = old
		return false
	}
	changed.Tools = differs(was.Tools, &c.Tools)
	changed.Prompts = differs(was.Prompts, &c.Prompts)
	changed.Resources = differs(was.Resources, &c.Resources)
	for _, list := range [][2]*[]json.RawMessage{{&was.Templates, &c.Templates}, {&was.Skills, &c.Skills}} {
		if differs(*list[0], list[1]) {
			changed.Resources = true
		}
	}
	return changed
}

// clean returns the lists of c without invalid items. known contains the
// previous lists, whose items are known to be valid.
func (c Catalog) clean(known Catalog) Catalog {
	return Catalog{
		Tools: objects(c.Tools, known.Tools), Prompts: objects(c.Prompts, known.Prompts),
		Resources: objects(c.Resources, known.Resources), Templates: objects(c.Templates, known.Templates),
		Skills: objects(c.Skills, known.Skills),
	}
}

// objects returns the items that are JSON objects, each on one line. An item that equals the item
// at the same index of known, the previous list, is not validated again.
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
		if item = oneLine(item); item[0] == '{' {
			clean = append(clean, item)
		}
	}
	return clean
}

// list is one of the lists that a server offers.
type list struct {
	field string // name of the result member that contains the items
	of    func(*Catalog) []json.RawMessage
	kind  subscriptions.Lists // the list whose changes are reported to clients
}

// lists returns the supported lists, keyed by the method that returns them.
func lists() map[string]list {
	return map[string]list{
		mcp.MethodListTools:     {"tools", func(c *Catalog) []json.RawMessage { return c.Tools }, subscriptions.Lists{Tools: true}},
		mcp.MethodListPrompts:   {"prompts", func(c *Catalog) []json.RawMessage { return c.Prompts }, subscriptions.Lists{Prompts: true}},
		mcp.MethodListResources: {"resources", func(c *Catalog) []json.RawMessage { return c.Resources }, subscriptions.Lists{Resources: true}},
		mcp.MethodListTemplates: {"resourceTemplates", func(c *Catalog) []json.RawMessage { return c.Templates }, subscriptions.Lists{Resources: true}},
		mcp.MethodListSkills:    {"skills", func(c *Catalog) []json.RawMessage { return c.Skills }, subscriptions.Lists{Resources: true}},
	}
}

// digest returns a digest of the current list. Equal lists have the same digest in every process.
func (c *catalogs) digest(method string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.digestLocked(method)
}

func (c *catalogs) digestLocked(method string) string {
	if d, ok := c.digests[method]; ok {
		return d
	}
	h := sha256.New()
	for _, item := range lists()[method].of(c.generations[c.gen]) {
		_, _ = h.Write(append(slices.Clip(item), '\n')) // a hash never fails; items contain no newline
	}
	if c.digests == nil {
		c.digests = map[string]string{}
	}
	c.digests[method] = hex.EncodeToString(h.Sum(nil)[:8])
	return c.digests[method]
}

// changedSince compares the current lists with the digests of the lists that a client saw last, by
// method. It returns the lists that changed.
func (c *catalogs) changedSince(digests map[string]string) (changed subscriptions.Lists) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for method, l := range lists() {
		if was, seen := digests[method]; seen && was != c.digestLocked(method) {
			changed = changed.Or(l.kind)
		}
	}
	return changed
}

// Differs reports whether the lists differ from those with the digests that [Server.ServeResumable] reported.
func (s *Server) Differs(seen map[string]string) bool { return s.lists.changedSince(seen).Any() }

// page returns one page of at most size items of the list that of selects. next is the cursor for
// the next page, empty on the last page. All pages come from the catalog of the first page, which
// the cursor identifies.
func (c *catalogs) page(cursor string, size int, of func(*Catalog) []json.RawMessage) (items []json.RawMessage, next string, err *Error) {
	gen, from, valid := uint64(0), 0, true
	if cursor != "" {
		gen, from, valid = c.parseCursor(cursor)
	}
	if !valid {
		return nil, "", errorf(mcp.CodeInvalidParams, "invalid cursor")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if cursor == "" {
		gen = c.gen
	}
	catalog := c.generations[gen]
	if catalog == nil {
		return nil, "", errorf(mcp.CodeInvalidParams, "the cursor has expired because the list has changed; list again without a cursor")
	}
	list := of(catalog)
	if from > len(list) {
		return nil, "", errorf(mcp.CodeInvalidParams, "invalid cursor")
	}
	to, total := from, 0
	for to < len(list) && to-from < size && total <= pageBytes {
		total += len(list[to])
		to++
	}
	if to < len(list) {
		next = fmt.Sprintf("%s.%d.%d", c.epoch, gen, to)
		c.paged[gen] = true
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

// inVersion returns the items of a list as clients of a legacy version accept them: official clients
// reject the whole list because of an outputSchema whose type is not "object" and, before icons were
// specified, because of an icon whose sizes are a list.
func inVersion(version string, items []json.RawMessage) []json.RawMessage {
	mended := slices.Clone(items)
	for i, item := range items {
		schema, icons := bytes.Contains(item, []byte(`"outputSchema"`)), version < mcp.LatestLegacy && bytes.Contains(item, []byte(`"icons"`))
		if !schema && !icons {
			continue
		}
		fields, failed := object(item)
		if failed != nil {
			continue
		}
		output, failed := object(fields["outputSchema"])
		if schema = fields["outputSchema"] != nil && (failed != nil || text(output["type"]) != "object"); schema {
			delete(fields, "outputSchema")
		}
		if icons = icons && fields["icons"] != nil; icons {
			delete(fields, "icons")
		}
		if schema || icons {
			mended[i] = encode(fields)
		}
	}
	return mended
}

// listResult encodes the result of a list request: the items in the member field, nextCursor if
// next is not empty, and the members in more.
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
