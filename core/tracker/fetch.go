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
	"github.com/mcptrack/mcptrack/core/uritemplate"
)

// ReadResource reads a resource from the server and caches its content. If an update is
// announced while it is read, it is read again, at most three times in all; content that is
// outdated even then is returned but not cached. "No such resource" is [session.ErrNotFound]
// and drops the cached content.
func (c *Client) ReadResource(ctx context.Context, uri string) (cache.Resource, error) {
	conn, err := c.offering(ctx, catalog.Resources)
	if err != nil {
		return cache.Resource{}, err
	}
	return fetch{c, conn, catalog.Resources, uri}.read(ctx, uri, nil)
}

// CurrentResource returns the cached content if it has the digest and no update was announced;
// otherwise it is ReadResource.
func (c *Client) CurrentResource(ctx context.Context, uri string, digest catalog.Digest) (cache.Resource, error) {
	if r, ok := c.Cache().Resource(uri); ok && !r.Stale && r.Digest == digest {
		return r, nil
	}
	return c.ReadResource(ctx, uri)
}

// CachedResource returns the cached content while it is fresh, according to the
// server's ttlMs, and no update was announced; otherwise it is ReadResource.
func (c *Client) CachedResource(ctx context.Context, uri string) (cache.Resource, error) {
	if r, ok := c.Cache().Resource(uri); ok && r.Fresh(time.Now()) {
		return r, nil
	}
	return c.ReadResource(ctx, uri)
}

// ReadTemplate reads the resource that a URI template (RFC 6570) expands to and caches
// its content under the template: the last parameters win. Variables without a
// parameter expand to nothing, as the RFC specifies; a parameter that names no variable
// of the template is an error, and so is a template that is not in the server's list,
// if that is known.
func (c *Client) ReadTemplate(ctx context.Context, template string, params map[string]string) (cache.Resource, error) {
	conn, err := c.offering(ctx, catalog.Templates)
	if err != nil {
		return cache.Resource{}, err
	}
	uri, err := c.expand(template, params)
	if err != nil {
		return cache.Resource{}, err
	}
	return fetch{c, conn, catalog.Templates, template}.read(ctx, uri, maps.Clone(params))
}

// CachedTemplate is ReadTemplate, but returns the cached content while it is fresh and
// was read with the same parameters.
func (c *Client) CachedTemplate(ctx context.Context, template string, params map[string]string) (cache.Resource, error) {
	if r, ok := c.Cache().Template(template); ok && r.Fresh(time.Now()) && maps.Equal(r.Params, params) {
		return r, nil
	}
	return c.ReadTemplate(ctx, template, params)
}

// expand checks a template against the server's list and expands it.
func (c *Client) expand(template string, params map[string]string) (string, error) {
	if list := c.List(catalog.Templates); len(list) > 0 {
		if _, ok := list.Get(template); !ok {
			return "", fmt.Errorf("read by template %q: %w: the server does not list it", printable.Line(template, 300), session.ErrNotFound)
		}
	}
	return uritemplate.Expand(template, params)
}

// GetPrompt gets a prompt from the server and caches it under its name: the last
// arguments win.
func (c *Client) GetPrompt(ctx context.Context, name string, args map[string]string) (cache.Prompt, error) {
	conn, err := c.offering(ctx, catalog.Prompts)
	if err != nil {
		return cache.Prompt{}, err
	}
	f := conn.cache.Fetch(catalog.Prompts, name, "")
	raw, err := do(conn, func(s *session.Session) (json.RawMessage, error) { return s.GetPrompt(ctx, name, args) })
	if err != nil {
		f.Cancel()
		return cache.Prompt{}, err
	}
	p := cache.NewPrompt(name, maps.Clone(args), raw, time.Now())
	conn.publishing.Lock()
	defer conn.publishing.Unlock()
	if o := f.Prompt(p); o == cache.Stored || o == cache.TooLarge {
		result := event.PromptContent{Name: name, Size: int64(len(raw))}
		if result.Size <= c.t.opts.MaxText {
			cached := p
			cached.Arguments = maps.Clone(p.Arguments) // the caller may change its own map
			result.Prompt = &cached
		}
		c.t.store.publish(event.Event{ServerID: c.server, Payload: result})
	}
	return p, nil
}

// CallTool calls a tool and caches the result under its name, also if it failed. The
// error is for calls that were refused or not answered; a tool's own failure is a
// result without Success. See [session.WithProgress] for progress. If ctx ends, the
// call is cancelled on the server.
func (c *Client) CallTool(ctx context.Context, tool string, args map[string]any) (cache.ToolResult, error) {
	conn, err := c.offering(ctx, catalog.Tools)
	if err != nil {
		return cache.ToolResult{}, err
	}
	began := time.Now()
	f := conn.cache.Fetch(catalog.Tools, tool, "")
	raw, err := do(conn, func(s *session.Session) (json.RawMessage, error) { return s.CallTool(ctx, tool, args) })
	failure, _ := conn.s.ToolFailure(raw)
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
	conn.publishing.Lock()
	defer conn.publishing.Unlock()
	if o := f.ToolResult(r); o == cache.Stored || o == cache.TooLarge {
		result := event.ToolResult{Name: tool, Success: r.Success, Error: r.Error, Duration: event.Milliseconds(r.Time.Sub(began))}
		if int64(len(raw)) <= c.t.opts.MaxText {
			cached := r
			result.Result = &cached
		}
		c.t.store.publish(event.Event{ServerID: c.server, Payload: result})
	}
	return r, err
}

// Complete requests completions for an argument of a prompt or a variable of a
// template, given the beginning of its value and the arguments that are known already.
func (c *Client) Complete(ctx context.Context, ref session.Reference, argument, value string, given map[string]string) (session.Completion, error) {
	conn, err := c.connection(ctx)
	if err != nil {
		return session.Completion{}, err
	}
	if !conn.s.Info().Capabilities.Completions {
		return session.Completion{}, &UnsupportedError{"completions"}
	}
	return do(conn, func(s *session.Session) (session.Completion, error) {
		return s.Complete(ctx, ref, argument, value, given)
	})
}
