package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/gateway/upstream"
	"github.com/mcptrack/mcptrack/core/lock/guard"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/skill"
	"github.com/mcptrack/mcptrack/core/status"
)

// compared is the result of comparing a server with the lock.
type compared struct {
	entry    config.Server
	verdict  *guard.Verdict                  // nil without a lock
	listed   map[catalog.Kind][]catalog.Item // what was compared
	approved map[catalog.Kind][]catalog.Item // the lists to serve
	api      *upstream.Catalog               // what was compared, if the server is an HTTP catalog
}

// lockResults caches what depends on the lock. Only the goroutine of Run uses it.
type lockResults struct {
	entries  *[]config.Server // the config of this merge
	version  any              // the version of the lock of this merge
	last     map[string]lockResult
	current  map[string]lockResult
	launches map[string]launched       // by server
	verdicts map[string]*guard.Verdict // see Options.Verdicts; of this merge
}

// lockResult is a result with what it was made from.
type lockResult struct {
	compared
	version any
	offer   guard.Offer
}

// launched is how a server was started when it last connected.
type launched struct {
	entry      config.Server
	connected  time.Time // zero if it was not connected
	definition json.RawMessage
}

func (r *lockResults) begin(entries *[]config.Server, version any) {
	r.entries, r.version, r.current, r.verdicts = entries, version, map[string]lockResult{}, map[string]*guard.Verdict{}
	if r.launches == nil {
		r.launches = map[string]launched{}
	}
	configured := map[string]bool{}
	if entries != nil {
		for _, srv := range *entries {
			configured[srv.ID] = true
		}
	}
	maps.DeleteFunc(r.launches, func(id string, _ launched) bool { return !configured[id] })
}

func (r *lockResults) end() { r.last = r.current }

// newExports merges contributions for the config and the lock of the merge.
func (l *loop) newExports(parts []contribution, refuse func(Refusal)) *exports {
	v := newExports(l.local, parts, *l.merging, refuse)
	v.entries, v.lock = l.locks.entries, l.locks.version
	return v
}

// compare compares a server's lists with the lock. The result is reused until something changes.
func (l *loop) compare(srv config.Server, st status.ServerStatus, lists map[catalog.Kind][]catalog.Item) compared {
	result := compared{entry: srv}
	if a := l.httpCatalog(srv.ID); a != nil {
		result.api = a.up.Catalog()
		lists = map[catalog.Kind][]catalog.Item{catalog.Tools: result.api.Tools}
	}
	result.listed, result.approved = lists, lists
	if result.api != nil && result.api.Build == "" && len(result.api.Tools) <= 1 {
		result.listed = nil // it has not been read yet
	}
	if l.opts.Guard == nil {
		return result
	}
	offer := guard.Offer{Launch: l.launch(srv, st), Lists: result.listed}
	if st.Info.Era != "" {
		offer.Capabilities, offer.Instructions = st.Info.RawCapabilities, &st.Info.Instructions
	}
	if was, ok := l.locks.last[srv.ID]; ok && was.version == l.locks.version && maps.Equal(was.entry.Lock, srv.Lock) && sameOffer(was.offer, offer) {
		was.entry, was.api, was.listed, was.offer = srv, result.api, result.listed, offer
		l.locks.current[srv.ID] = was
		return was.compared
	}
	result.verdict = l.opts.Guard.Judge(l.alias().of(srv.ID), srv.Lock, offer)
	result.approved = make(map[catalog.Kind][]catalog.Item, len(lists))
	for k, list := range lists {
		result.approved[k] = result.verdict.Approved(k, list)
	}
	l.locks.current[srv.ID] = lockResult{result, l.locks.version, offer}
	return result
}

func sameOffer(a, b guard.Offer) bool {
	return bytes.Equal(a.Launch, b.Launch) && bytes.Equal(a.Capabilities, b.Capabilities) &&
		(a.Instructions == nil) == (b.Instructions == nil) && (a.Instructions == nil || *a.Instructions == *b.Instructions) &&
		maps.EqualFunc(a.Lists, b.Lists, sameItems)
}

// launch returns how a server is started or reached. It is determined when the config entry has changed
// and, because package managers install when a program starts, when the server has connected.
func (l *loop) launch(srv config.Server, st status.ServerStatus) json.RawMessage {
	if l.opts.Launch == nil {
		return nil
	}
	was, known := l.locks.launches[srv.ID]
	now := launched{entry: srv, connected: was.connected, definition: was.definition}
	if st.Connected() {
		now.connected = st.Since
	}
	if !known || !now.connected.Equal(was.connected) || !srv.Equal(was.entry) {
		exported := srv
		exported.ID = l.alias().of(srv.ID)
		now.definition = l.opts.Launch(l.ctx, exported)
	}
	l.locks.launches[srv.ID] = now
	return now.definition
}

// unapproved adds what is not approved of a server to refused.
func unapproved(server string, verdict *guard.Verdict, refused map[Refusal]struct{}) {
	for _, c := range verdict.Changes() {
		refused[Refusal{Server: server, Kind: catalog.Kind(c.Section), Key: c.Key, Reason: c.Reason, Listed: !c.Hidden, Unapproved: true}] = struct{}{}
	}
}

// permitted returns why the request must not be sent, or nil if it may be. It first replaces the exports
// if they do not show the newest state of the item, the lock and the config.
func (rt *route) permitted(ctx context.Context) error {
	if rt.g.opts.Guard == nil {
		return nil
	}
	if rt.outdated() {
		if err := rt.g.flush(ctx); err != nil {
			return err
		}
	}
	rt.v = rt.g.exports.Load()
	return rt.refused()
}

// refused returns why the route's exports do not permit a request about its item, or nil if it does.
func (rt *route) refused() error {
	verdict := rt.state().verdict
	if err := verdict.Blocked(); err != nil || rt.item.key == "" {
		return err
	}
	if err := verdict.Refuse(rt.item.kind, rt.item.key); err != nil || rt.item.kind == catalog.Tools || rt.item.kind == catalog.Prompts {
		return err
	}
	if key, is := skillOf(verdict.Held(catalog.Skills), rt.item.key); is {
		return verdict.Refuse(catalog.Skills, key)
	}
	if rt.listed() {
		return nil
	}
	if verdict.Enforced() && rt.mayBeSkillFile() {
		return verdict.RefuseStray()
	}
	if key, is := spelled(verdict.Held(catalog.Resources), rt.item.key); is {
		return verdict.Refuse(catalog.Resources, key)
	}
	held := rt.v.held[rt.server]
	if len(held) == 0 {
		return nil
	}
	is, ok := readURI(rt.item.key)
	for _, t := range held {
		if !ok || len(rt.item.key) > maxCompared || t.matches(rt.item.key) || slices.ContainsFunc(is.loose, t.matches) {
			return verdict.Refuse(catalog.Templates, t.key)
		}
	}
	return nil
}

// mayBeSkillFile reports whether the server may take the request's URI, which it does not list, for a file of a
// skill that no listed skill has under this URI: the URI is another spelling, or the skill is not listed
// and can therefore not be approved.
func (rt *route) mayBeSkillFile() bool {
	if !slices.Contains(rt.v.extensions[mcp.ExtensionSkills], rt.server) {
		return false
	}
	skills := catalog.List(rt.state().listed[catalog.Skills])
	if e := session.SkillIn(skills, rt.item.key); e != nil {
		_, has := e.File(rt.item.key)
		return !has && !e.Dynamic()
	}
	if scheme, _, _ := strings.Cut(rt.item.key, ":"); strings.EqualFold(scheme, "skill") {
		return true
	}
	_, is := skillOf(skills.Keys(), rt.item.key)
	return is
}

func (rt *route) listed() bool {
	_, listed := catalog.List(rt.state().listed[rt.item.kind]).Get(rt.item.key)
	return listed
}

// readable returns why the result of resources/read must not be served, or nil if it may be.
func (rt *route) readable(ctx context.Context, result json.RawMessage) error {
	if string(fields(result)["resultType"]) != `"input_required"` {
		if err := rt.g.tracker.CheckSkillFile(ctx, rt.server, rt.item.key, result); err != nil {
			return err
		}
	}
	verdict, uri := rt.state().verdict, rt.item.key
	if pinned := verdict.Pinned(); len(pinned) > 0 && !slices.Contains(pinned, uri) && !rt.listed() {
		if key, is := spelled(pinned, uri); is {
			uri = key
		}
	}
	if err := verdict.Contents(uri, result); err != nil || !verdict.Enforced() {
		return err
	}
	if e := session.SkillIn(rt.state().listed[catalog.Skills], rt.item.key); e != nil {
		_, err := session.VerifySkillFile(e, rt.item.key, result) // the approval binds to the digests
		return err
	}
	return nil
}

// skillOf returns the first of several skills, given by the URIs of their SKILL.md, to whose directory a
// server may take a URI to belong.
func skillOf(skills []string, uri string) (of string, is bool) {
	return mayMean(skills, uri, func(asked, main string) bool {
		return len(main) >= len(skill.Main) && strings.HasPrefix(asked+"/", main[:len(main)-len(skill.Main)])
	})
}

// spelled returns the first of several URIs of which a server may take another URI for a spelling.
func spelled(uris []string, uri string) (of string, is bool) {
	return mayMean(uris, uri, func(asked, known string) bool { return asked == known })
}

// mayMean returns the first of several URIs for which means returns true, for a way in which a server may read
// it and another URI: see [reading]. A URI that is not in normal form may be read as any other.
func mayMean(uris []string, uri string, means func(asked, known string) bool) (of string, is bool) {
	if len(uris) == 0 {
		return "", false
	}
	asked, ok := readURI(uri)
	if !ok || len(uri) > maxCompared {
		return uris[0], true
	}
	for _, of := range uris {
		known, ok := readURI(of)
		if !ok || slices.ContainsFunc(asked.loose, func(a string) bool {
			return slices.ContainsFunc(known.loose, func(k string) bool { return means(a, k) })
		}) {
			return of, true
		}
	}
	return "", false
}

// MayReadTexts reports whether resources/read, sent by the client that sent r, would serve each text that
// a resource may have had. The resource is specified by its server's id in the tracker and its URI there.
// A result may contain other resources too, so the answer is false for all resources of a server if
// changed contents are held.
func (g *Gateway) MayReadTexts(ctx context.Context, r *mcpserver.Request, server, uri string) bool {
	rt := g.route(r)
	rt.server, rt.item = server, itemID{catalog.Resources, target{server, uri}}
	return rt.permitted(ctx) == nil && !rt.state().verdict.HoldsContents()
}

// outdated reports whether the newest exports do not show the newest state of the request's item.
func (rt *route) outdated() bool {
	v := rt.g.exports.Load()
	seen := v.servers[rt.server]
	if v.entries != rt.g.enabled.Load() || v.lock != rt.g.opts.Guard.Version() {
		return true
	}
	if a := rt.g.httpCatalog(rt.server); a != nil {
		return a.up.Catalog() != seen.api
	}
	if rt.item.key == "" {
		return false
	}
	was, _ := catalog.List(seen.listed[rt.item.kind]).Get(rt.item.key)
	now, listed := rt.g.tracker.Client(rt.server).Item(rt.item.kind, rt.item.key)
	return listed && now.Digest != was.Digest
}
