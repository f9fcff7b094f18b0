package audit

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

// Limits on time. An audit of one server ends after maxAudit, whatever the server does.
const (
	maxAudit = 3 * time.Minute
	// maxAnswer is how long a request that checks something waits for its answer.
	maxAnswer = 5 * time.Second
	// maxExit is how long a process may continue after its stdin has ended.
	maxExit = 10 * time.Second
)

// A result is what the audit of one server found.
type result struct {
	srv    config.Server
	limits session.Limits // of lists
	info   session.Info
	counts map[catalog.Kind]int
	sizes  map[catalog.Kind]int // bytes of the definitions
	findings
	err error // why the server could not be checked
}

// An auditor checks servers. Its fields are the settings for all of them.
type auditor struct {
	dial    session.DialFunc
	session session.Options
}

// run checks one server with two sessions, one after the other. It returns when both have ended and the
// processes that it started are gone.
func (a auditor) run(ctx context.Context, srv config.Server) *result {
	r := &result{srv: srv, limits: a.session.Limits, counts: map[catalog.Kind]int{}, sizes: map[catalog.Kind]int{}}
	if r.err = srv.Unusable(); r.err != nil {
		return r
	}
	ctx, cancel := context.WithTimeoutCause(ctx, maxAudit, fmt.Errorf("the audit took longer than %s", maxAudit))
	defer cancel()
	opts := a.session
	// Over HTTP, the first session opens the stream of notifications, which a one-shot session does not.
	opts.OneShot = srv.Transport == config.TransportStdio
	if opts.Logger != nil {
		opts.Logger = opts.Logger.With("server", printable.Line(srv.ID, 128))
	}
	http := newHTTPCheck(srv)
	http.credentials(ctx, r)
	first, err := a.dial(ctx, srv, opts)
	if err != nil {
		r.err = err
		return r
	}
	r.info = first.Info()
	lists := r.lists(ctx, first)
	for _, k := range catalog.Kinds() {
		l := lists[k]
		r.counts[k] = len(l.items)
		for _, it := range l.items {
			r.sizes[k] += size(it.raw)
		}
		r.findings = append(r.findings, l.findings...)
		r.findings = append(r.findings, checkList(ctx, k, l.items)...)
	}
	if n := r.sizes[catalog.Tools]; n > largeList {
		r.add("list-size", "", "%d tools have %d bytes, about %d tokens", r.counts[catalog.Tools], n, n/bytesPerToken)
	}
	if r.info.Era == session.EraModern && r.info.Other == "" { // not every server names the versions that it supports
		old := srv
		old.Protocol = config.ProtocolLegacy
		if s, err := a.dial(ctx, old, opts); err == nil {
			r.info.Other = s.Info().Era
			_ = s.Close()
		}
	}
	r.about()
	p := probe{s: first, r: r, info: r.info, lists: lists}
	p.run(ctx)
	_ = first.Close()
	noise := first.FirstNoise()

	opts.OneShot, opts.Era, opts.Grace = true, r.info.Era, maxExit
	if second, err := a.dial(ctx, srv, opts); err != nil {
		r.add("unstable", "", "a second session failed: %s", reason(err))
	} else {
		again, info := r.lists(ctx, second), second.Info()
		_ = second.Close()
		if second.Lingered() {
			r.add("exit", "", "the process still ran %s after its stdin had ended", maxExit)
		}
		noise = cmp.Or(noise, second.FirstNoise())
		if len(compare(lists, again, r.info, info)) > 0 {
			r.confirm(ctx, a, srv, opts, again, info)
		}
	}
	if noise != "" {
		r.add("stdout", "", "a line of stdout is not a message: \u201c%s\u201d", printable.Line(noise, 120))
	}
	http.origin(ctx, r)
	if ctx.Err() != nil {
		r.err = context.Cause(ctx)
	}
	return r
}

// about checks what the server says about itself.
func (r *result) about() {
	if r.info.ServerName == "" || r.info.ServerVersion == "" {
		r.add("identity", "", "serverInfo has no name or no version")
	}
	switch {
	case r.info.Era == session.EraLegacy && r.info.Other == "" && r.info.ProtocolVersion != mcp.LatestLegacy:
		r.add("version", "", "it supports version %s, but not %s or %s", r.info.ProtocolVersion, mcp.LatestLegacy, mcp.ModernVersion)
	case r.info.Era == session.EraLegacy && r.info.Other == "":
		r.add("version", "", "it supports version %s, but not %s", r.info.ProtocolVersion, mcp.ModernVersion)
	case r.info.Era == session.EraModern && r.info.Other == "":
		r.add("version", "", "it supports version %s, but not %s, which most clients use", r.info.ProtocolVersion, mcp.LatestLegacy)
	}
	if r.info.Instructions != "" {
		if raw, err := json.Marshal(r.info.Instructions); err == nil {
			r.texts("instructions", raw)
		}
	}
}

// A list is what one session got of one list, in the order in which the server sent it.
type list struct {
	items    []item
	findings // on the list itself
	err      error
}

// lists fetches all lists that the server declares.
func (r *result) lists(ctx context.Context, s *session.Session) map[catalog.Kind]*list {
	lists := map[catalog.Kind]*list{}
	for _, k := range catalog.Kinds() {
		if lists[k] = new(list); s.Info().Capabilities.Has(k) {
			lists[k].fetch(ctx, s, k, r.limits)
		}
	}
	return lists
}

// fetch fetches all pages, with the limits and defaults of [session.Limits]. It does not use
// [session.Session.List], which hides how the server answers.
func (l *list) fetch(ctx context.Context, s *session.Session, k catalog.Kind, limits session.Limits) {
	method := k.Method()
	maxPages, maxItems, maxList := cmp.Or(limits.MaxPages, 100), cmp.Or(limits.MaxItems, 10_000), cmp.Or(limits.MaxList, 32<<20)
	var params map[string]json.RawMessage // nil for the first page
	cursors := map[string]bool{}
	bytes, index := int64(0), 0
	for page := 1; ; page++ {
		raw, err := s.Do(ctx, session.Request{Method: method, Params: params})
		if err != nil {
			l.err = err
			if k != catalog.Templates || !errors.Is(err, session.ErrUnsupported) { // not every server with resources has templates
				l.add("capability", "", "the capability is declared, but %s failed: %s", method, reason(err))
			}
			return
		}
		var members map[string]json.RawMessage
		var elements []json.RawMessage
		if json.Unmarshal(raw, &members) != nil || json.Unmarshal(members[k.Field()], &elements) != nil || elements == nil {
			l.err = errors.New("malformed")
			l.add("capability", "", "the result of %s has no array %q", method, k.Field())
			return
		}
		if bytes += int64(len(raw)); bytes > maxList || len(l.items)+len(elements) > maxItems {
			l.add("pagination", "", "%s has more than %d items or %d bytes", method, maxItems, maxList)
			return
		}
		for _, element := range elements {
			it, problem := newItem(k, element, index)
			index++
			if problem != "" {
				l.add("malformed", it.name, "%s", problem)
			}
			l.items = append(l.items, it)
		}
		next, present := members["nextCursor"]
		if !present || string(next) == "null" {
			return
		}
		var c string
		switch {
		case json.Unmarshal(next, &c) != nil:
			l.add("pagination", "", "nextCursor of %s is not a string", method)
			return
		case cursors[c]:
			l.add("pagination", "", "page %d of %s repeats an earlier cursor", page, method)
			return
		case page == maxPages:
			l.add("pagination", "", "%s has more than %d pages", method, maxPages)
			return
		}
		cursors[c] = true
		params = map[string]json.RawMessage{"cursor": next}
	}
}

// confirm compares the lists of a second session with the lists of a third. If they are the same, the server
// has changed between the first two, which is no defect.
func (r *result) confirm(ctx context.Context, a auditor, srv config.Server, opts session.Options, lists map[catalog.Kind]*list, info session.Info) {
	opts.Grace = 0
	third, err := a.dial(ctx, srv, opts)
	if err != nil {
		r.add("unstable", "", "a third session failed: %s", reason(err))
		return
	}
	r.findings = append(r.findings, compare(lists, r.lists(ctx, third), info, third.Info())...)
	_ = third.Close()
}

// compare compares what two sessions got.
func compare(first, second map[catalog.Kind]*list, was, is session.Info) (r findings) {
	if was.Instructions != is.Instructions {
		r.add("unstable", "instructions", "differ from session to session")
	}
	for _, k := range catalog.Kinds() {
		a, b := first[k], second[k]
		if a.err != nil || b.err != nil {
			if a.err == nil || b.err == nil {
				r.add("unstable", "", "%s fails only in some sessions: %s", k.Method(), reason(cmp.Or(a.err, b.err)))
			}
			continue
		}
		before, after := hashes(a.items), hashes(b.items)
		compared := map[string]bool{}
		same := len(a.items) == len(b.items)
		for _, it := range slices.Concat(a.items, b.items) {
			was, first := before[it.key]
			is, second := after[it.key]
			if compared[it.key] || first && second && was == is {
				continue
			}
			compared[it.key], same = true, false
			if first && second {
				r.add("unstable", it.name, "has another definition from session to session")
			} else {
				r.add("unstable", it.name, "is only in some sessions")
			}
		}
		if same && !slices.EqualFunc(a.items, b.items, func(x, y item) bool { return x.key == y.key }) {
			r.add("order", "", "%s has another order from session to session", k.Method())
		}
	}
	return r
}

// hashes returns the hashes of items by key. The first of several items with a key counts.
func hashes(items []item) map[string]string {
	m := make(map[string]string, len(items))
	for _, it := range items {
		if _, ok := m[it.key]; !ok {
			m[it.key] = it.hash
		}
	}
	return m
}

// reason returns an error as it is shown in a finding.
func reason(err error) string {
	if rpc, ok := errors.AsType[*session.RPCError](err); ok {
		return fmt.Sprintf("error %d: %s", rpc.Code, printable.Line(rpc.Message, 200))
	}
	return printable.Line(strings.TrimSpace(err.Error()), 300)
}
