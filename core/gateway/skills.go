package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/skill"
)

const (
	maxSkill      = 2 << 20 // maximum size of an entry, in bytes; 512 files with the longest URIs fit
	maxSkillFiles = 50_000  // maximum number of files in all entries of a server
)

// newSkill validates an entry for items.go. Its frontmatter must equal that of SKILL.md, which hosts
// compare, so nothing is removed from an entry: it is listed as it is, or not at all.
func newSkill(it catalog.Item) (item, error) {
	if len(it.Raw) > maxSkill {
		return item{}, fmt.Errorf("it is larger than %d KiB", maxSkill>>10)
	}
	e, err := skill.Parse(it.Raw)
	if err != nil {
		return item{}, err
	}
	var line bytes.Buffer
	if err := json.Compact(&line, it.Raw); err != nil {
		return item{}, errors.New("it is not valid JSON")
	}
	if fields(e.Frontmatter)["__proto__"] != nil {
		return item{}, errors.New("its frontmatter has a key __proto__, which clients reject")
	}
	var m mender
	raw, problem := objectOf(optional("_meta", objectShape))(&m, line.Bytes())
	if problem != "" {
		return item{}, errors.New("it " + problem)
	}
	out := item{key: it.Key, raw: raw, digest: it.Digest, rendered: &rendered{}, skill: &listedSkill{Entry: e}}
	if m.left != nil {
		out.suspicion = "it had " + strings.Join(m.left, ", ") + ", which were removed"
	}
	members, err := out.members(catalog.Skills.KeyField())
	if err != nil {
		return item{}, err
	}
	if slices.ContainsFunc(members, isReservedMeta) {
		return item{}, errors.New("it has members that are reserved for mcptrack")
	}
	var c cleaner
	if c.clean("", out.raw, true); c.hides {
		return item{}, errors.New("a name or value in it contains hidden characters")
	}
	return out, nil
}

// listedSkill is the entry of a skill. Only the goroutine that merges uses its other fields.
type listedSkill struct {
	skill.Entry
	exported string // the URI for which admitted was determined; empty if none
	admitted bool
}

// uris returns the URIs of the skill: of its files, or only of SKILL.md if it is dynamic.
func (s *listedSkill) uris() []string {
	uris := []string{s.URI}
	for _, f := range s.Files {
		if f.URI != s.URI {
			uris = append(uris, f.URI)
		}
	}
	return uris
}

// renamed returns the entry of a skill whose SKILL.md is exported under another URI, which ends with the
// original one or with everything after its scheme. All files are renamed likewise, and stay in its folder.
func renamed(e skill.Entry, exported string) skill.Entry {
	dir, was := strings.TrimSuffix(exported, "/"+skill.Main), e.Dir()
	e.URI, e.Files = exported, slices.Clone(e.Files)
	for i, f := range e.Files {
		e.Files[i].URI = dir + strings.TrimPrefix(f.URI, was)
	}
	return e
}

// limitSkills returns the first skills of a server that have at most maxSkillFiles files together.
func limitSkills(items []item, refuse func(key string, err error)) []item {
	room := maxSkillFiles
	return slices.DeleteFunc(items, func(it item) bool {
		if room -= len(it.skill.uris()); room >= 0 {
			return false
		}
		refuse(it.key, fmt.Errorf("the server lists skills with more than %d files", maxSkillFiles))
		return true
	})
}

// ownSkills makes each server the owner of the files of its skills, which it need not list as resources.
// It returns the skills of which a URI belongs to several servers, or starts like a qualified URI: all
// their URIs are exported in qualified form, so that an entry stays consistent.
func (v *exports) ownSkills(parts []contribution) (qualified map[target]bool) {
	for _, c := range parts {
		own := func(uri string) {
			first, listed := v.owners[uri]
			v.owners[uri] = owner{c.id, listed && (first.shared || first.server != c.id)}
		}
		for _, it := range c.known[catalog.Skills] {
			own(it.Key)
		}
		for _, it := range c.lists[catalog.Skills] {
			for _, uri := range it.skill.uris() {
				own(uri)
			}
		}
	}
	qualified = map[target]bool{}
	for _, c := range parts {
		for _, it := range c.lists[catalog.Skills] {
			uris := it.skill.uris()
			if !slices.ContainsFunc(uris, func(uri string) bool {
				return v.owners[uri].shared || v.only == "" && !keepsKey(catalog.Resources, uri)
			}) {
				continue
			}
			qualified[target{c.id, it.key}] = true
			for _, uri := range uris {
				v.qualified[target{c.id, uri}] = struct{}{}
			}
		}
	}
	return qualified
}

// admitsSkill reports whether a skill of a server may be exported under a URI: the filter must admit all of
// its files, because a host that approves the skill expects to read them.
func (v *exports) admitsSkill(server string, s *listedSkill, exported string) bool {
	if v.filter.empty() {
		return true
	}
	if s.exported != exported {
		names := (&listedSkill{Entry: renamed(s.Entry, exported)}).uris()
		s.exported, s.admitted = exported, true
		for i, uri := range s.uris() {
			if !v.filter.admits(catalog.Resources, target{server, uri}, names[i]) {
				s.admitted = false
				break
			}
		}
	}
	return s.admitted
}

// reads reports whether the settings of the Skills extension contain directoryRead.
func reads(settings json.RawMessage) bool { return string(fields(settings)["directoryRead"]) == "true" }

// mergeSkills merges the settings of the Skills extension of two servers: a server that declares
// directoryRead must support it for all skills.
func mergeSkills(a, b json.RawMessage) json.RawMessage {
	if reads(a) && reads(b) {
		return a
	}
	return json.RawMessage(`{}`)
}

// enclosing returns the URI of the skill of a server that contains a folder or file, or "" if there is none.
func (v *exports) enclosing(server, uri string) string {
	for main := range skill.Mains(uri + "/") { // it may be the skill's own folder
		if o, listed := v.owners[main]; listed && (o.server == server || o.shared) {
			return main
		}
	}
	return ""
}

// folder returns the target of the URI of a folder of a skill, provided that the filter admits it.
func (v *exports) folder(uri string) (t target, ok bool) {
	if t, ok = v.locate(uri); !ok {
		for main := range skill.Mains(uri + "/") {
			if o, listed := v.owners[main]; listed {
				t, ok = target{o.server, uri}, !o.shared
				break
			}
		}
		if !ok {
			return target{}, false
		}
	}
	exported := t.key
	if uri != t.key {
		exported = v.filter.alias.qualify(t)
	}
	return t, t.server != "" && v.filter.admits(catalog.Resources, t, exported)
}

// skillRoute returns the route of a request about a skill, or an error if no server that declares skills
// has the URI.
func (g *Gateway) skillRoute(r *mcpserver.Request, find func(*exports, string) (target, bool)) (*route, target, error) {
	rt := g.route(r)
	t, ok := find(rt.v, r.URI())
	if !ok || !slices.Contains(g.exports.Load().extensions[mcp.ExtensionSkills], t.server) {
		return nil, t, &mcpserver.Error{Code: mcp.CodeInvalidParams, Message: "no skill is served at " + printable.Line(r.URI(), 200)}
	}
	rt.server = t.server
	return rt, t, nil
}

// getSkill handles skills/get. It asks the server, because entries of unlisted skills can be got, and
// because a listed entry may be out of date.
func (g *Gateway) getSkill(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	rt, t, err := g.skillRoute(r, (*exports).resource)
	if err != nil {
		return nil, err
	}
	rt.item = itemID{catalog.Skills, t}
	if rt.state().verdict.Enforced() {
		return rt.approvedSkill(ctx, t)
	}
	params := r.Members()
	params["uri"] = quote(t.key)
	raw, err := rt.send(ctx, params)
	if err != nil {
		return nil, err
	}
	return rt.v.rewriteSkill(t, r.URI(), raw)
}

// approvedSkill answers skills/get with the entry that is listed, because that one was compared with the
// lock. Clients cannot get skills that the server does not list.
func (rt *route) approvedSkill(ctx context.Context, t target) (json.RawMessage, error) {
	if err := rt.permitted(ctx); err != nil {
		return nil, rt.g.wireError(t.server, err)
	}
	for _, it := range rt.v.servers[t.server].exported[catalog.Skills] {
		if rt.v.byKey[catalog.Skills][it.Key] != t {
			continue
		}
		if it.Key == rt.r.URI() {
			return encode(map[string]json.RawMessage{"skill": it.Raw}), nil
		}
		e, err := skill.Parse(it.Raw)
		if err != nil {
			return nil, rt.g.wireError(t.server, err)
		}
		return encode(map[string]skill.Entry{"skill": renamed(e, rt.r.URI())}), nil
	}
	return nil, mcpserver.ErrNotFound
}

// rewriteSkill returns the result of skills/get for a client that asked for a URI of the gateway. An invalid
// entry is an error.
func (v *exports) rewriteSkill(t target, asked string, raw json.RawMessage) (json.RawMessage, error) {
	err := errors.New("the result has no skill")
	out, _ := within(raw, "skill", func(entry json.RawMessage) (json.RawMessage, bool) {
		var it catalog.Item
		var checked item
		if it, err = catalog.NewItem(catalog.Skills, entry); err == nil {
			checked, err = newSkill(it)
		}
		switch {
		case err != nil:
		case it.Key != t.key:
			err = errors.New("the result is another skill")
		case !v.admitsSkill(t.server, checked.skill, asked):
			err = mcpserver.ErrNotFound
		case asked != t.key:
			return encode(renamed(checked.skill.Entry, asked)), true
		}
		return entry, false
	})
	if errors.Is(err, mcpserver.ErrNotFound) {
		return nil, err
	}
	if err != nil {
		return nil, &mcpserver.Error{Code: mcp.CodeInternal, Message: fmt.Sprintf("server %s: invalid skill: %s", v.filter.alias.line(t.server), printable.Reason(err, 300))}
	}
	return out, nil
}

// readDirectory handles resources/directory/read of a folder of a skill.
func (g *Gateway) readDirectory(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	rt, t, err := g.skillRoute(r, (*exports).folder)
	if err != nil {
		return nil, err
	}
	rt.item = itemID{catalog.Resources, t}
	if of := rt.v.enclosing(t.server, t.key); of != "" {
		rt.item = itemID{catalog.Skills, target{t.server, of}}
	}
	params := r.Members()
	params["uri"] = quote(t.key)
	raw, err := rt.send(ctx, params)
	if err != nil {
		return nil, err
	}
	asQualified := r.URI() != t.key
	rewriter := rt.v.rewriter(t.server)
	out, _ := within(raw, "resources", func(list json.RawMessage) (json.RawMessage, bool) {
		var children, kept []json.RawMessage
		_ = json.Unmarshal(list, &children) // stays empty if it is not a list
		for _, child := range children {
			var uri string
			_ = json.Unmarshal(fields(child)["uri"], &uri) // stays empty on an error, which is not a URI
			at := target{t.server, uri}
			exported := rt.v.filter.alias.qualify(at)
			if !rt.v.filter.admits(catalog.Resources, at, map[bool]string{true: exported, false: uri}[asQualified]) {
				continue
			}
			child, _ = within(child, "uri", func(value json.RawMessage) (json.RawMessage, bool) {
				switch {
				case asQualified:
					return quote(exported), true
				case strings.HasPrefix(uri, t.key+"/"): // as in the skill's list of files
					return value, false
				}
				return rewriter.uri(value)
			})
			if child, problem := itemShape(catalog.Resources)(new(mender), child); problem == "" {
				kept = append(kept, child)
			}
		}
		return encode(append([]json.RawMessage{}, kept...)), true
	})
	return out, nil
}
