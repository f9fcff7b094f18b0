package upstream

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/mcptrack/mcptrack/core/catalog"
)

// MaxSkips is how many skipped entries of a catalog are reported individually; further entries
// are only counted.
const MaxSkips = 100

// A Catalog holds the tools of an API at one time, with the routes behind them. It is deeply
// immutable.
type Catalog struct {
	// Build is the API's build when the catalog was read, "" if the API has none. It is
	// not sanitized.
	Build string
	// Tools are MCP tool descriptors in listing order. get_version is always the last.
	Tools []catalog.Item

	routes map[string]*apiTool
}

// List returns the tools as a list that can be compared with others.
func (c *Catalog) List() catalog.List { return catalog.NewList(c.Tools) }

// A Skip is an entry of a catalog that cannot be served.
type Skip struct {
	Index  int    // in the array, from 0
	Name   string // one printable line; "" if it has none
	Reason string
}

func emptyCatalog() *Catalog { return &Catalog{Tools: []catalog.Item{versionTool()}} }

// A candidate is a catalog that was read but is not served yet.
type candidate struct {
	tools   []catalog.Item // without get_version
	routes  map[string]*apiTool
	digest  catalog.Digest // of tools and routes, whatever their order
	skips   []Skip
	skipped int // how many entries were skipped, including those beyond MaxSkips
}

// parseCatalog checks a catalog entry by entry and skips invalid entries. It fails only if the
// body is not an array.
func parseCatalog(body []byte) (*candidate, error) {
	var list []json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil || list == nil {
		return nil, errors.New("the catalog is not a JSON array")
	}
	c := &candidate{routes: map[string]*apiTool{}}
	skip := func(index int, name string, reason error) {
		if c.skipped++; len(c.skips) < MaxSkips {
			c.skips = append(c.skips, Skip{index, bounded(name), reason.Error()})
		}
	}
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
			skip(i, name, err)
			continue
		}
		c.routes[e.name] = e
		c.tools = append(c.tools, item)
	}
	sorted := slices.Clone(c.tools)
	slices.SortFunc(sorted, func(a, b catalog.Item) int { return cmp.Compare(a.Key, b.Key) })
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

// fetch reads the catalog. An unchanged catalog is not parsed again.
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
			s.Name, s.Reason = p.u.redact.text(s.Name), p.u.redact.text(s.Reason)
		}
		p.u.warn(p.last, c)
		p.last, p.sum = c, sum
	}
	p.etag = a.header.Get("ETag")
	return p.last, nil
}

// warn reports the skipped entries of a catalog, unless the previous catalog had the same.
func (u *Upstream) warn(before, now *candidate) {
	if now.skipped == 0 || before != nil && before.skipped == now.skipped && slices.Equal(before.skips, now.skips) {
		return
	}
	if u.opts.OnSkip != nil {
		u.opts.OnSkip(slices.Clone(now.skips), now.skipped)
		return
	}
	for _, s := range now.skips[:min(len(now.skips), 5)] {
		u.log.Warn("catalog entry skipped", "index", s.Index, "name", s.Name, "reason", s.Reason)
	}
	if more := now.skipped - 5; more > 0 {
		u.log.Warn("more catalog entries skipped", "number", more)
	}
}

// swap makes a candidate the current catalog and calls OnChange if its list differs.
func (u *Upstream) swap(build string, c *candidate) {
	now := u.Catalog()
	next := &Catalog{Build: build, routes: c.routes}
	next.Tools = append(slices.Clone(c.tools), versionTool())
	delta := catalog.Diff(now.List(), next.List())
	if delta.Empty() {
		next.Tools = now.Tools // keeps the previous order
	}
	u.current.Store(next)
	if delta.Empty() {
		return
	}
	u.log.Info("catalog changed", "build", bounded(build), "tools", len(next.Tools),
		"added", len(delta.Added), "removed", len(delta.Removed), "changed", len(delta.Changed))
	if u.opts.OnChange != nil {
		u.opts.OnChange(next, delta)
	}
}
