package upstream

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sort"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// maxSkips is the maximum number of skipped catalog entries that are logged individually; further entries are only
// counted.
const maxSkips = 100

// A Catalog is a snapshot of the tools of an API, with the routes that implement them. It is deeply
// immutable.
type Catalog struct {
	// Build is the API's build when the catalog was read; empty if the API does not report one. It
	// is not sanitized.
	Build string
	// Tools contains MCP tool descriptors in listing order. get_version is always the last one.
	Tools []catalog.Item

	routes map[string]*apiTool
	digest catalog.Digest // see candidate; zero before the first catalog
}

// List returns the tools as a list that can be compared with other lists.
func (c *Catalog) List() catalog.List { return catalog.NewList(c.Tools) }

// A skip describes a catalog entry that cannot be served.
type skip struct {
	index  int    // position in the array, starting at 0
	name   string // one printable line; empty if the entry has no name
	reason string
}

func emptyCatalog() *Catalog { return &Catalog{Tools: []catalog.Item{versionTool()}} }

// A candidate is a catalog that has been read but is not being served yet.
type candidate struct {
	tools   []catalog.Item // all tools except get_version
	routes  map[string]*apiTool
	digest  catalog.Digest // digest of the tools and routes, regardless of their order
	skips   []skip
	skipped int // number of skipped entries, including those beyond maxSkips
}

// parseCatalog validates a catalog entry by entry and skips invalid entries. It returns an error
// only if the body is not an array.
func parseCatalog(body []byte) (*candidate, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil || list == nil {
		return nil, errors.New("the catalog is not a JSON array")
	}
	c := &candidate{routes: map[string]*apiTool{}}
	for i, raw := range list {
		e, name, err := parseTool(raw)
		switch {
		case err != nil:
		case c.routes[e.name] != nil:
			err = errors.New("an earlier entry has the same name")
		case len(c.routes) == MaxTools:
			err = fmt.Errorf("there are more than %d tools", MaxTools)
		}
		var item catalog.Item
		if err == nil {
			item, err = e.descriptor()
		}
		if err != nil {
			if c.skipped++; len(c.skips) < maxSkips {
				c.skips = append(c.skips, skip{i, bounded(name), err.Error()})
			}
			continue
		}
		c.routes[e.name] = e
		c.tools = append(c.tools, item)
	}
	sorted := slices.Clone(c.tools)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].Key < sorted[j].Key })
	h := sha256.New()
	for _, it := range sorted {
		h.Write(it.Digest[:])
		e := c.routes[it.Key]
		route := sha256.Sum256(fmt.Appendf(nil, "%s %+v", e.route(), e.params))
		h.Write(route[:])
	}
	c.digest = catalog.Digest(h.Sum(nil))
	return c, nil
}

// fetch reads the catalog. If the catalog is unchanged, it is not parsed again.
func (p *poller) fetch(ctx context.Context) (*candidate, error) {
	const path = "/api/mcp/tools"
	a, err := p.u.get(ctx, path, p.etag, MaxCatalogBytes, catalogTimeout)
	switch {
	case err != nil:
		return nil, err
	case a.status == http.StatusNotModified && p.last != nil && p.etag != "":
		return p.last, nil
	case a.status != http.StatusOK:
		return nil, statusError(path, a.status)
	}
	sum := sha256.Sum256(a.body)
	if p.last == nil || sum != p.sum {
		c, err := parseCatalog(bytes.TrimPrefix(a.body, []byte("\ufeff")))
		if err != nil {
			return nil, fmt.Errorf("GET %s: %w", path, err)
		}
		for i := range c.skips {
			s := &c.skips[i]
			s.name, s.reason = p.u.redact.text(s.name), p.u.redact.text(s.reason)
		}
		p.u.warn(p.last, c)
		p.last, p.sum = c, sum
	}
	p.etag = a.header.Get("ETag")
	return p.last, nil
}

// warn logs the skipped entries in a catalog, unless the same entries were skipped in the
// previous catalog.
func (u *Upstream) warn(before, now *candidate) {
	if now.skipped == 0 || before != nil && before.skipped == now.skipped && slices.Equal(before.skips, now.skips) {
		return
	}
	for _, s := range now.skips {
		u.log.Warn("the gateway does not list an entry of the API catalog", "item", s.name, "reason", s.reason)
	}
	if more := now.skipped - len(now.skips); more > 0 {
		u.log.Warn("the gateway does not list more entries of the API catalog", "number", more)
	}
}

// swap makes a candidate the current catalog. If the list of tools differs, it calls Changed.
func (u *Upstream) swap(build string, c *candidate) {
	now := u.Catalog()
	next := &Catalog{Build: build, routes: c.routes, digest: c.digest}
	next.Tools = append(slices.Clone(c.tools), versionTool())
	delta := catalog.Diff(now.List(), next.List())
	if delta.Empty() {
		next.Tools = now.Tools // keep the previous order
	}
	u.current.Store(next)
	if delta.Empty() {
		return
	}
	u.log.Info("catalog changed", "build", bounded(build), "tools", len(next.Tools),
		"added", len(delta.Added), "removed", len(delta.Removed), "changed", len(delta.Changed))
	u.opts.Changed()
}
