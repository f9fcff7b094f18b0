package serve

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/mcptrack/mcptrack/core/printable"
)

// caller is who sent a message, as far as an answer depends on it.
type caller struct {
	version   string
	modern    bool
	principal string
	notify    func(method string, params any)
}

// quick reports whether a request is answered from memory, without a function of
// the options.
func quick(method string) bool {
	switch method {
	case methodCall, methodGetPrompt, methodRead, methodComplete:
		return false
	}
	return true
}

// result answers a request that needs neither a session nor a stream. ctx bounds
// the function that it calls.
func (s *Server) result(ctx context.Context, m *message, who caller) (json.RawMessage, *Error) {
	if !s.offers(m.method, who.modern) {
		return nil, refuse(CodeMethodNotFound, "method not found: %s", bounded(m.method))
	}
	switch m.method {
	case methodPing:
		return json.RawMessage("{}"), nil
	case methodDiscover:
		return s.complete(s.discovered(), true, who)
	case methodTools, methodPrompts, methodResources, methodTemplates:
		return s.list(m, who)
	case methodCall:
		return s.ask(ctx, s.opts.CallTool, m, who, "name")
	case methodGetPrompt:
		return s.ask(ctx, s.opts.GetPrompt, m, who, "name")
	case methodRead:
		return s.ask(ctx, s.opts.ReadResource, m, who, "uri")
	case methodComplete:
		return s.ask(ctx, s.opts.Complete, m, who, "")
	}
	return nil, refuse(CodeInvalidRequest, "%s is not possible here", m.method)
}

func (s *Server) list(m *message, who caller) (json.RawMessage, *Error) {
	field, of := "tools", func(c *Catalog) []json.RawMessage { return c.Tools }
	switch m.method {
	case methodPrompts:
		field, of = "prompts", func(c *Catalog) []json.RawMessage { return c.Prompts }
	case methodResources:
		field, of = "resources", func(c *Catalog) []json.RawMessage { return c.Resources }
	case methodTemplates:
		field, of = "resourceTemplates", func(c *Catalog) []json.RawMessage { return c.Templates }
	}
	cursor := ""
	if raw := m.fields["cursor"]; raw != nil && string(raw) != "null" {
		if err := json.Unmarshal(raw, &cursor); err != nil {
			return nil, refuse(CodeInvalidParams, `"cursor" must be a string`)
		}
	}
	items, next, err := s.lists.page(cursor, s.opts.PageSize, of)
	if err != nil {
		return nil, err
	}
	var more []member
	if who.modern {
		more = s.eraMembers(true)
	}
	return listResult(field, items, next, more), nil
}

// ask has a function of the options answer. required names the parameter that
// must be a string.
func (s *Server) ask(ctx context.Context, f Func, m *message, who caller, required string) (json.RawMessage, *Error) {
	if required != "" && text(m.fields[required]) == "" {
		return nil, refuse(CodeInvalidParams, "%s: %q must be a string", m.method, required)
	}
	r := &Request{
		Method: m.method, Params: m.params, Version: who.version, Principal: who.principal,
		modern: who.modern, fields: m.fields, notify: who.notify,
	}
	r.stripConnection(m.meta)
	result, err := s.run(ctx, f, r)
	if err != nil {
		return nil, wireError(err, r)
	}
	return s.complete(result, m.method == methodRead, who)
}

// complete makes a result fit for the wire: an object in one line, with the members
// that the modern era requires, or without those that only it has. A function may
// hand on what another server said: to this client the server is this one.
func (s *Server) complete(result json.RawMessage, cacheable bool, who caller) (json.RawMessage, *Error) {
	var err error
	if who.modern {
		result, err = with(result, s.eraMembers(cacheable))
	} else {
		result, err = withoutEra(result)
	}
	if errors.Is(err, errUnfinished) {
		return nil, refuse(CodeInternal, "%s", err)
	}
	if err != nil {
		return nil, refuse(CodeInternal, "the result is no JSON object")
	}
	return result, nil
}

// eraMembers are what results of the modern era have beyond those of the legacy
// one. Nothing may be kept without asking again (ttlMs 0) or be shared between
// users (private), unless a function says otherwise: whoever wants to be told of
// changes subscribes.
func (s *Server) eraMembers(cacheable bool) []member {
	members := []member{{"resultType", json.RawMessage(`"complete"`)}}
	if cacheable {
		members = append(members, member{"ttlMs", json.RawMessage("0")}, member{"cacheScope", json.RawMessage(`"private"`)})
	}
	return append(members, member{"_meta", s.stamp})
}

// stripConnection leaves out what only concerned the connection.
func (r *Request) stripConnection(meta map[string]json.RawMessage) {
	own := []string{metaVersion, metaClient, metaAbilities}
	if !slices.ContainsFunc(own, func(name string) bool { return meta[name] != nil }) {
		return
	}
	rest := make(map[string]json.RawMessage, len(meta))
	for name, value := range meta {
		if !slices.Contains(own, name) {
			rest[name] = value
		}
	}
	fields := make(map[string]json.RawMessage, len(r.fields))
	for name, value := range r.fields {
		if name != "_meta" {
			fields[name] = value
		}
	}
	if len(rest) > 0 {
		fields["_meta"] = encode(rest)
	}
	r.fields, r.Params = fields, encode(fields)
}

// bounded is a text of a client, fit to be repeated.
func bounded(text string) string { return printable.Line(text, 100) }
