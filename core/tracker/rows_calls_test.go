package tracker_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/tracker"
)

// A long call reports its progress, and stops at the server when it is cancelled.
func TestLongCall(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, nil, func(p *peer) {
		var published []session.Progress
		ctx := session.WithProgress(p.ctx(), func(r session.Progress) { published = append(published, r) })
		r, err := p.client.CallTool(ctx, "work", map[string]any{"steps": 3, "ms": 10})
		want := []session.Progress{{Progress: 1, Total: 3, Message: "step 1"}, {Progress: 2, Total: 3, Message: "step 2"}, {Progress: 3, Total: 3, Message: "step 3"}}
		if err != nil || !r.Success || !slices.Equal(published, want) {
			p.Errorf("%+v, %v; published %+v", r, err, published)
		}
		p.awaitType(event.TypeToolResult, "")

		ctx, cancel := context.WithCancel(p.ctx())
		ctx = session.WithProgress(ctx, func(session.Progress) { cancel() })
		if _, err = p.client.CallTool(ctx, "work", map[string]any{"steps": 100, "ms": 300}); !errors.Is(err, context.Canceled) {
			p.Errorf("a cancelled call gives %v", err)
		}
		if kept, ok := p.client.Cache().ToolResult("work"); !ok || kept.Success || kept.Error != "cancelled" {
			p.Errorf("kept %+v", kept)
		}
		e, _ := p.awaitType(event.TypeToolResult, "")
		if published := e.Payload.(event.ToolResult); published.Success || published.Error != "cancelled" {
			p.Errorf("published %+v", published)
		}
		p.eventually("the server has stopped", func() bool {
			raw, err := p.tracker.CallTool(p.ctx(), "notes", "cancelled", nil)
			return err == nil && strings.Contains(string(raw), `"text":"1"`)
		})
	})
}

// What a server wants of its client is declined at once: nobody hangs.
func TestRequestsOfTheServerAreDeclined(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, nil, func(p *peer) {
		for _, method := range []string{"elicitation/create", "sampling/createMessage", "roots/list"} {
			began := time.Now()
			r, err := p.client.CallTool(p.ctx(), "ask", map[string]any{"method": method})
			if p.era == session.EraModern { // it knows in advance that it need not ask
				if rpc, ok := errors.AsType[*session.RPCError](err); !ok || !strings.Contains(rpc.Message, "elicitation") {
					p.Errorf("%s: %v", method, err)
				}
				continue
			}
			if err != nil || !strings.Contains(string(r.Raw()), "-32601") {
				p.Errorf("%s: %s, %v", method, r.Raw(), err)
			}
			if took := time.Since(began); took > 10*time.Second {
				p.Errorf("%s: declined after %s", method, took)
			}
		}
	})
}

// Arguments of prompts and variables of templates are completed by the server.
func TestCompleteArguments(t *testing.T) {
	t.Parallel()
	eachEra(t, tracker.Options{}, nil, func(p *peer) {
		for _, c := range []struct {
			ref             session.Reference
			argument, value string
			want            []string
		}{
			{session.Reference{Prompt: "greet"}, "who", "wo", []string{"world", "wonderland"}},
			{session.Reference{Template: "note:///{year}/{name}"}, "year", "", []string{"2025", "2026"}},
			{session.Reference{Template: "note:///{year}/{name}"}, "name", "x", nil},
		} {
			got, err := p.client.Complete(p.ctx(), c.ref, c.argument, c.value, nil)
			if err != nil || !slices.Equal(got.Values, c.want) || got.Total != len(c.want) {
				p.Errorf("%+v %s=%s: %+v, %v", c.ref, c.argument, c.value, got, err)
			}
		}
	})
}
