package audit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
}

// A question is a request with which a server is checked.
type question struct {
	rule, item string // of the finding if the answer is wrong
	method     string
	params     map[string]any
	want       answer // success, refusal, or either
	// check returns what is wrong with an answer that is the wanted one. May be nil.
	check func(result json.RawMessage, err error) string
}

// run sends the requests one after another, so that it is known which one ended the session.
func (p *probe) run(ctx context.Context) {
	if p.subscribe(ctx); !p.over(ctx) {
		p.cursors(ctx)
	}
	for _, q := range p.questions() {
		if p.over(ctx) {
			return
		}
		p.ask(ctx, q)
	}
}

func (p *probe) ask(ctx context.Context, q question) {
	result, a, err := p.do(ctx, q.method, q.params)
	if _, failed := session.ToolFailure(result); failed && q.method == mcp.MethodCallTool {
		a = refusal
	}
	problem := ""
	switch {
	case a == over:
	case a == silence:
		problem = "was not answered within " + maxAnswer.String()
		if q.want == either {
			q.rule = "unknown-method"
		}
	case a == success && q.want == refusal:
		problem = "was answered with a result"
	case a == refusal && q.want == success:
		problem = "failed: " + reason(err)
	case q.check != nil:
		problem = q.check(result, err)
	}
	if problem != "" {
		p.r.add(q.rule, q.item, "%s %s", q.method, problem)
	}
}

// questions returns what is asked of the server.
func (p *probe) questions() []question {
	caps := p.info.Capabilities
	questions := []question{{rule: "ping", method: mcp.MethodPing}}
	if p.info.Era == session.EraModern {
		questions[0].method = mcp.MethodDiscover
	}
	if caps.Completions {
		questions = append(questions, p.completion()...)
	}
	var declared map[string]json.RawMessage
	_ = json.Unmarshal(p.info.RawCapabilities, &declared)
	if declared["logging"] != nil && p.info.Era == session.EraLegacy {
		questions = append(questions, question{rule: "capability", method: mcp.MethodSetLevel, params: map[string]any{"level": "warning"}})
	}
	for _, k := range catalog.Kinds() {
		if !caps.Has(k) { // a server may refuse, or list nothing
			questions = append(questions, question{rule: "undeclared", method: k.Method(), want: either, check: func(result json.RawMessage, _ error) string {
				var members map[string]json.RawMessage
				var items []json.RawMessage
				_ = json.Unmarshal(result, &members)
				if json.Unmarshal(members[k.Field()], &items) != nil || len(items) == 0 {
					return ""
				}
				return fmt.Sprintf("has %d items, but the capability is not declared", len(items))
			}})
		}
	}
	questions = append(questions, question{rule: "unknown-method", method: noMethod, want: refusal, check: func(_ json.RawMessage, err error) string {
		if rpc, ok := errors.AsType[*session.RPCError](err); ok && rpc.Code == mcp.CodeMethodNotFound {
			return ""
		}
		return "was answered with another error: " + reason(err)
	}})
	if caps.Tools {
		questions = append(questions,
			question{rule: "unknown-item", method: mcp.MethodCallTool, params: map[string]any{"name": noName, "arguments": map[string]any{}}, want: refusal},
			question{rule: "bad-arguments", method: mcp.MethodCallTool, params: map[string]any{"name": noName, "arguments": "text"}, want: refusal})
	}
	if caps.Prompts {
		questions = append(questions, question{rule: "unknown-item", method: mcp.MethodGetPrompt, params: map[string]any{"name": noName}, want: refusal})
	}
	if caps.Resources && !p.matchesTemplate(noURI) {
		questions = append(questions, question{rule: "unknown-item", method: mcp.MethodReadResource, params: map[string]any{"uri": noURI}, want: refusal})
	}
	return questions
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
		p.r.add("ended", "", "after %s: %s", method, reason(p.s.Err()))
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
	either         // success or refusal
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
		p.r.add("subscribe", "", "declares subscribe or listChanged, but opens no stream for notifications (GET)")
		return
	}
	for _, uri := range ack.MissingURIs {
		p.r.add("subscribe", itemName(catalog.Resources, uri), "declares resources.subscribe, but does not acknowledge a subscription to it")
	}
	for _, k := range ack.MissingLists {
		if k != catalog.Templates { // belongs to resources
			p.r.add("subscribe", "", "declares %s.listChanged, but does not acknowledge a subscription to it", k)
		}
	}
	if err != nil && len(ack.MissingURIs) == 0 && len(ack.MissingLists) == 0 {
		p.r.add("subscribe", "", "%s", reason(err))
	}
}

// completion returns the completion of the first argument of the first prompt or template that has one.
func (p *probe) completion() []question {
	complete := func(it item, ref map[string]any, argument string) []question {
		return []question{{rule: "completion", item: it.name, method: mcp.MethodComplete, params: map[string]any{"ref": ref, "argument": map[string]any{"name": argument, "value": ""}},
			check: func(result json.RawMessage, _ error) string {
				var r struct {
					Completion struct{ Values []string }
				}
				if json.Unmarshal(result, &r) != nil || r.Completion.Values == nil {
					return "gives no array of values"
				}
				return ""
			}}}
	}
	for _, it := range p.lists[catalog.Prompts].items {
		var d definition
		if d.read(it.raw); it.hash != "" && len(d.Arguments) > 0 {
			return complete(it, map[string]any{"type": "ref/prompt", "name": it.key}, d.Arguments[0].Name)
		}
	}
	for _, it := range p.lists[catalog.Templates].items {
		variables, err := uritemplate.Variables(it.key)
		if err == nil && it.hash != "" && len(variables) > 0 {
			return complete(it, map[string]any{"type": "ref/resource", "uri": it.key}, variables[0])
		}
	}
	return nil
}

// cursors asks each list for a page with a cursor that the server did not give out.
func (p *probe) cursors(ctx context.Context) {
	var pages []string // methods that answered with a page
	for _, k := range catalog.Kinds() {
		l := p.lists[k]
		if !p.info.Capabilities.Has(k) || l.err != nil || slices.ContainsFunc(l.findings, func(f finding) bool { return f.rule == "pagination" }) {
			continue
		}
		switch _, a, _ := p.do(ctx, k.Method(), map[string]any{"cursor": noName}); a {
		case success:
			pages = append(pages, k.Method())
		case silence:
			p.r.add("cursor", "", "%s does not answer an unknown cursor within %s", k.Method(), maxAnswer)
		case over:
			return
		}
	}
	if len(pages) > 0 {
		p.r.add("cursor", "", "an unknown cursor is answered with a page by %s", strings.Join(pages, ", "))
	}
}

// matchesTemplate reports whether a URI may identify a resource after all.
func (p *probe) matchesTemplate(uri string) bool {
	return slices.ContainsFunc(p.lists[catalog.Templates].items, func(it item) bool {
		pattern, err := uritemplate.Pattern(it.key)
		return err != nil || pattern.MatchString(uri)
	})
}
