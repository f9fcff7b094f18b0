package tracker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/mcptrack/mcptrack/core/cache"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

// ReadResource reads a resource, always anew, and keeps its content. When an update
// is announced while it is read, it is read again: at most three times in all, and
// what could not be read in peace is returned but not kept. "No such resource" is
// [session.ErrNotFound] and drops what was kept.
func (c *Client) ReadResource(ctx context.Context, uri string) (cache.Resource, error) {
	conn, err := c.offering(catalog.Resources)
	if err != nil {
		return cache.Resource{}, err
	}
	return fetched{c, conn, catalog.Resources, uri}.read(ctx, uri, nil)
}

// CachedResource returns the content that was read last, while the server's ttlMs
// says that it is fresh and no update was announced; else it is ReadResource.
func (c *Client) CachedResource(ctx context.Context, uri string) (cache.Resource, error) {
	if r, ok := c.Cache().Resource(uri); ok && r.Fresh(time.Now()) {
		return r, nil
	}
	return c.ReadResource(ctx, uri)
}

// ReadTemplate reads the resource that a URI template (RFC 6570) expands to, always
// anew, and keeps its content under the template: the last parameters win. Variables
// without a parameter expand to nothing, as the RFC has it; a parameter that the
// template has no variable for is an error, and so is a template that the server
// does not list, where its list is known.
func (c *Client) ReadTemplate(ctx context.Context, template string, params map[string]string) (cache.Resource, error) {
	conn, err := c.offering(catalog.Templates)
	if err != nil {
		return cache.Resource{}, err
	}
	uri, err := c.expand(template, params)
	if err != nil {
		return cache.Resource{}, err
	}
	return fetched{c, conn, catalog.Templates, template}.read(ctx, uri, maps.Clone(params))
}

// CachedTemplate is ReadTemplate, but returns what was read last while it is fresh
// and was read for the same parameters.
func (c *Client) CachedTemplate(ctx context.Context, template string, params map[string]string) (cache.Resource, error) {
	if r, ok := c.Cache().Template(template); ok && r.Fresh(time.Now()) && maps.Equal(r.Params, params) {
		return r, nil
	}
	return c.ReadTemplate(ctx, template, params)
}

// expand checks a template against the server's list and fills it in.
func (c *Client) expand(template string, params map[string]string) (string, error) {
	if list := c.List(catalog.Templates); len(list) > 0 {
		if _, ok := list.Get(template); !ok {
			return "", fmt.Errorf("read by template %q: %w: the server does not list it", printable.Line(template, 300), session.ErrNotFound)
		}
	}
	return ExpandTemplate(template, params)
}

// GetPrompt gets a prompt, always anew, and keeps it under its name: the last
// arguments win.
func (c *Client) GetPrompt(ctx context.Context, name string, args map[string]string) (cache.Prompt, error) {
	conn, err := c.offering(catalog.Prompts)
	if err != nil {
		return cache.Prompt{}, err
	}
	f := conn.shelf.Fetch(catalog.Prompts, name, "")
	raw, err := errand(conn, func(s *session.Session) (json.RawMessage, error) { return s.GetPrompt(ctx, name, args) })
	if err != nil {
		f.Cancel()
		return cache.Prompt{}, err
	}
	p := cache.NewPrompt(name, maps.Clone(args), raw, time.Now())
	conn.telling.Lock()
	defer conn.telling.Unlock()
	if o := f.Prompt(p); o == cache.Stored || o == cache.TooLarge {
		told := event.PromptContent{Name: name, Size: int64(len(raw))}
		if told.Size <= c.t.opts.MaxText {
			kept := p
			kept.Arguments = maps.Clone(p.Arguments) // the others are the caller's to change
			told.Prompt = &kept
		}
		c.t.store.publish(event.Event{ServerID: c.server, Payload: told})
	}
	return p, nil
}

// CallTool calls a tool and keeps how that ended under its name, also if it failed.
// The error is for calls that were refused or not answered; a tool's own failure is
// a result without Success. Progress is told to who asked with
// [session.WithProgress]; when ctx ends, the server is told to stop.
func (c *Client) CallTool(ctx context.Context, tool string, args map[string]any) (cache.ToolResult, error) {
	conn, err := c.offering(catalog.Tools)
	if err != nil {
		return cache.ToolResult{}, err
	}
	began := time.Now()
	f := conn.shelf.Fetch(catalog.Tools, tool, "")
	raw, err := errand(conn, func(s *session.Session) (json.RawMessage, error) { return s.CallTool(ctx, tool, args) })
	failure, failed := failureText(raw)
	if failed { // it is told to more than the caller
		failure = printable.Line(conn.s.Redact(failure), maxFailure)
	}
	if err != nil {
		failure = errorLine(err)
		if errors.Is(err, context.Canceled) {
			failure = "cancelled"
		}
	}
	if args == nil {
		args = map[string]any{}
	}
	r := cache.NewToolResult(tool, args, raw, failure, time.Now())
	conn.telling.Lock()
	defer conn.telling.Unlock()
	if o := f.ToolResult(r); o == cache.Stored || o == cache.TooLarge {
		told := event.ToolResult{Name: tool, Success: r.Success, Error: r.Error, Duration: event.Milliseconds(r.Time.Sub(began))}
		if int64(len(raw)) <= c.t.opts.MaxText {
			kept := r
			told.Result = &kept
		}
		c.t.store.publish(event.Event{ServerID: c.server, Payload: told})
	}
	return r, err
}

// Complete asks what an argument of a prompt or a variable of a template may be,
// given the beginning of its value and the arguments that are known already.
func (c *Client) Complete(ctx context.Context, ref session.Reference, argument, value string, given map[string]string) (session.Completion, error) {
	conn, err := c.connection()
	if err != nil {
		return session.Completion{}, err
	}
	if !conn.s.Info().Capabilities.Completions {
		return session.Completion{}, &UnsupportedError{"completions"}
	}
	return errand(conn, func(s *session.Session) (session.Completion, error) {
		return s.Complete(ctx, ref, argument, value, given)
	})
}
