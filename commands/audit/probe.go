package audit

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/uritemplate"
)

// Names that no server has. Tools are called only by this name, so that a call has no effect.
const (
	noMethod = "mcptrack-audit/no-such-method"
	noName   = "mcptrack_audit_no_such_item"
	noURI    = "mcptrack-audit://no-such-resource"
)

// A probe sends requests that check how a server answers. It stops when the session ends.
type probe struct {
	s     *session.Session
	r     *result
	info  session.Info
	lists map[catalog.Kind]*list

	pages []string // methods that answered an unknown cursor with a page
}

// run sends the requests one after another, so that it is known which one ended the session.
func (p *probe) run(ctx context.Context) {
	caps := p.info.Capabilities
	checks := []func(context.Context){p.subscribe, p.ping, p.complete, p.logging}
	for _, k := range catalog.Kinds() {
		switch {
		case !caps.Has(k):
			checks = append(checks, func(ctx context.Context) { p.undeclared(ctx, k) })
		case p.lists[k].err == nil && !slices.ContainsFunc(p.lists[k].findings, func(f finding) bool { return f.rule == rulePagination }):
			checks = append(checks, func(ctx context.Context) { p.cursor(ctx, k) })
		}
	}
	checks = append(checks, p.unknown)
	for _, check := range checks {
		if check(ctx); p.over(ctx) {
			break
		}
	}
	if len(p.pages) > 0 {
		p.r.add(ruleCursor, "", "an unknown cursor is answered with a page by %s", strings.Join(p.pages, ", "))
	}
}

func (p *probe) over(ctx context.Context) bool {
	select {
	case <-p.s.Done():
		return true
	default:
		return ctx.Err() != nil
	}
}

// do sends a request. If the session ends, it adds a finding; the caller need not look at the error then.
func (p *probe) do(ctx context.Context, method string, params map[string]any) (result json.RawMessage, a answer, err error) {
	raw := map[string]json.RawMessage{}
	for name, value := range params {
		raw[name], _ = json.Marshal(value) // the values are our own texts and maps
	}
	for range 3 {
		result, err = p.s.Do(ctx, session.Request{Method: method, Params: raw, Timeout: maxAnswer})
		if a = answerOf(err); a != silence {
			return result, a, err
		}
		if p.over(ctx) || p.prompt(ctx) {
			break
		}
	}
	if p.over(ctx) && ctx.Err() == nil {
		p.r.add(ruleEnded, "", "after %s: %s", method, reason(p.s.Err()))
		return nil, over, err
	}
	if ctx.Err() != nil {
		return nil, over, err
	}
	return nil, silence, err
}

// prompt reports whether the server answers ping as fast as ever, or not at all. Otherwise the machine or
// the server is busy, and silence means nothing.
func (p *probe) prompt(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 6*maxAnswer)
	defer cancel()
	began := time.Now()
	return p.s.Ping(ctx) != nil || time.Since(began) < maxAnswer/10
}

// An answer is how a server answered.
type answer int

const (
	success answer = iota
	refusal        // a JSON-RPC error, or an HTTP status that says so
	silence        // no answer in time, or none that can be read
	over           // the session has ended, which was reported
)

func answerOf(err error) answer {
	_, rpc := errors.AsType[*session.RPCError](err)
	_, http := errors.AsType[*session.HTTPError](err)
	switch {
	case err == nil:
		return success
	case rpc, http, errors.Is(err, session.ErrUnsupported), errors.Is(err, session.ErrNotFound), errors.Is(err, session.ErrAuth):
		return refusal
	}
	return silence
}

func (p *probe) ping(ctx context.Context) {
	method := mcp.MethodPing
	if p.info.Era == session.EraModern {
		method = mcp.MethodDiscover
	}
	switch _, a, err := p.do(ctx, method, nil); a {
	case refusal, silence:
		p.r.add(rulePing, "", "%s failed: %s", method, reason(err))
	}
}

// subscribe subscribes to the first resource and to the lists whose changes the server announces.
func (p *probe) subscribe(ctx context.Context) {
	caps := p.info.Capabilities
	f := session.Filter{Tools: caps.ToolsListChanged, Prompts: caps.PromptsListChanged, Resources: caps.ResourcesListChanged}
	if items := p.lists[catalog.Resources].items; caps.ResourcesSubscribe && len(items) > 0 && items[0].hash != "" {
		f.URIs = []string{items[0].key}
	}
	if f.Empty() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, 2*maxAnswer)
	defer cancel()
	ack, err := p.s.Subscribe(ctx, f)
	if !p.s.Info().Push {
		p.r.add(ruleSubscribe, "", "declares subscribe or listChanged, but opens no stream for notifications (GET)")
		return
	}
	for _, uri := range ack.MissingURIs {
		p.r.add(ruleSubscribe, itemName(catalog.Resources, uri), "declares resources.subscribe, but does not acknowledge a subscription to it")
	}
	for _, k := range ack.MissingLists {
		if k != catalog.Templates { // belongs to resources
			p.r.add(ruleSubscribe, "", "declares %s.listChanged, but does not acknowledge a subscription to it", k)
		}
	}
	if err != nil && len(ack.MissingURIs) == 0 && len(ack.MissingLists) == 0 {
		p.r.add(ruleSubscribe, "", "%s", reason(err))
	}
}

// complete completes the first argument of the first prompt or template that has one.
func (p *probe) complete(ctx context.Context) {
	if !p.info.Capabilities.Completions {
		return
	}
	ask := func(it item, ref map[string]any, argument string) {
		result, a, err := p.do(ctx, mcp.MethodComplete, map[string]any{"ref": ref, "argument": map[string]any{"name": argument, "value": ""}})
		var r struct {
			Completion struct{ Values []string }
		}
		switch {
		case a == refusal || a == silence:
			p.r.add(ruleCompletion, it.name, "completing %q failed: %s", argument, reason(err))
		case a == success && (json.Unmarshal(result, &r) != nil || r.Completion.Values == nil):
			p.r.add(ruleCompletion, it.name, "completing %q gives no array of values", argument)
		}
	}
	for _, it := range p.lists[catalog.Prompts].items {
		var d definition
		if d.read(it.raw); it.hash != "" && len(d.Arguments) > 0 {
			ask(it, map[string]any{"type": "ref/prompt", "name": it.key}, d.Arguments[0].Name)
			return
		}
	}
	for _, it := range p.lists[catalog.Templates].items {
		variables, err := uritemplate.Variables(it.key)
		if err == nil && it.hash != "" && len(variables) > 0 {
			ask(it, map[string]any{"type": "ref/resource", "uri": it.key}, variables[0])
			return
		}
	}
}

// logging sets the level of messages in this session, if the server declares that it sends them.
func (p *probe) logging(ctx context.Context) {
	var caps map[string]json.RawMessage
	_ = json.Unmarshal(p.info.RawCapabilities, &caps)
	if caps["logging"] == nil || p.info.Era != session.EraLegacy {
		return
	}
	switch _, a, err := p.do(ctx, mcp.MethodSetLevel, map[string]any{"level": "warning"}); a {
	case refusal, silence:
		p.r.add(ruleCapability, "", "the capability is declared, but %s failed: %s", mcp.MethodSetLevel, reason(err))
	}
}

// undeclared checks that a kind that the server does not declare has no items. Silence counts as well:
// clients that ask anyway wait.
func (p *probe) undeclared(ctx context.Context, k catalog.Kind) {
	result, a, _ := p.do(ctx, k.Method(), nil)
	var members map[string]json.RawMessage
	var items []json.RawMessage
	_ = json.Unmarshal(result, &members)
	_ = json.Unmarshal(members[k.Field()], &items)
	switch {
	case a == success && len(items) > 0:
		p.r.add(ruleUndeclared, "", "%s has %d items, but the capability is not declared", k.Method(), len(items))
	case a == silence:
		p.r.add(ruleUnknownMethod, "", "%s, which is not declared, was not answered within %s", k.Method(), maxAnswer)
	}
}

// cursor asks for a page with a cursor that the server did not give out.
func (p *probe) cursor(ctx context.Context, k catalog.Kind) {
	switch _, a, _ := p.do(ctx, k.Method(), map[string]any{"cursor": noName}); a {
	case success:
		p.pages = append(p.pages, k.Method())
	case silence:
		p.r.add(ruleCursor, "", "%s does not answer an unknown cursor within %s", k.Method(), maxAnswer)
	}
}

// unknown asks for what does not exist.
func (p *probe) unknown(ctx context.Context) {
	_, a, err := p.do(ctx, noMethod, nil)
	rpc, _ := errors.AsType[*session.RPCError](err)
	switch {
	case a == success:
		p.r.add(ruleUnknownMethod, "", "%s was answered with a result", noMethod)
	case a == silence:
		p.r.add(ruleUnknownMethod, "", "%s was not answered within %s", noMethod, maxAnswer)
	case a == refusal && rpc == nil:
		p.r.add(ruleUnknownMethod, "", "%s was answered without a JSON-RPC error: %s", noMethod, reason(err))
	case a == refusal && rpc.Code != mcp.CodeMethodNotFound:
		p.r.add(ruleUnknownMethod, "", "%s was answered with error %d: %s", noMethod, rpc.Code, rpc.Message)
	}
	caps := p.info.Capabilities
	for _, q := range []struct {
		asked        bool
		rule, method string
		params       map[string]any
	}{
		{caps.Tools, ruleUnknownItem, mcp.MethodCallTool, map[string]any{"name": noName, "arguments": map[string]any{}}},
		{caps.Tools, ruleBadArguments, mcp.MethodCallTool, map[string]any{"name": noName, "arguments": "text"}},
		{caps.Prompts, ruleUnknownItem, mcp.MethodGetPrompt, map[string]any{"name": noName}},
		{caps.Resources, ruleUnknownItem, mcp.MethodReadResource, map[string]any{"uri": noURI}},
	} {
		if !q.asked || p.over(ctx) || p.matchesTemplate(q.params["uri"]) {
			continue
		}
		result, a, _ := p.do(ctx, q.method, q.params)
		_, failed := session.ToolFailure(result)
		switch {
		case a == success && !failed:
			p.r.add(q.rule, "", "%s was answered with a result", q.method)
		case a == silence:
			p.r.add(q.rule, "", "%s was not answered within %s", q.method, maxAnswer)
		}
	}
}

// matchesTemplate reports whether a URI may identify a resource after all.
func (p *probe) matchesTemplate(uri any) bool {
	text, ok := uri.(string)
	return ok && slices.ContainsFunc(p.lists[catalog.Templates].items, func(it item) bool {
		pattern, err := uritemplate.Pattern(it.key)
		return err != nil || pattern.MatchString(text)
	})
}
