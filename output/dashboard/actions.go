package dashboard

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/mcptrack/mcptrack/core/calls"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/status"
)

// Actions is what the page can do with servers that this process follows. All functions are required.
type Actions struct {
	// Call calls a tool, and Prompt gets a prompt, in the session in which the server is followed. They
	// end with their context, and return an error if the server does not answer in time.
	Call   func(ctx context.Context, server, tool string, arguments map[string]any) (json.RawMessage, error)
	Prompt func(ctx context.Context, server, name string, arguments map[string]string) (json.RawMessage, error)
	// Refuse returns why a tool or prompt must not be used before the user has approved it, or nil.
	Refuse func(server string, k catalog.Kind, name string) error
	// Restart connects to a server again; to one that waits for its next attempt, now.
	Restart func(server string)
	// Called records a call, like that of any other client.
	Called func(calls.Call)
}

const (
	// maxActions limits concurrent calls.
	maxActions = 4
	// maxResult limits the result of a call, in bytes.
	maxResult = 3 << 20
	// maxPictures limits the pictures of a result that are shown.
	maxPictures = 8
	// sendTime limits how long a response may take to be sent.
	sendTime = 30 * time.Second
)

// ask is the body of a request that calls a tool or gets a prompt.
type ask struct {
	Tool      string                     `json:"tool"`
	Prompt    string                     `json:"prompt"`
	Arguments map[string]json.RawMessage `json:"arguments"`
}

// answered is the response to it.
type answered struct {
	Result   json.RawMessage    `json:"result"` // as the server sent it
	ServerMs event.Milliseconds `json:"serverMs"`
	Bytes    int                `json:"bytes"`              // size of the result
	Pictures []int              `json:"pictures,omitempty"` // which elements of its content can be shown as pictures
}

// actions returns the handlers of Options.Actions.
func (d *Dashboard) actions() map[string]http.Handler {
	if d.opts.Actions == nil {
		return nil
	}
	return map[string]http.Handler{
		"POST /api/servers/{id}/call": d.asks(catalog.Tools), "POST /api/servers/{id}/prompt": d.asks(catalog.Prompts),
		"POST /api/servers/{id}/restart": answers(d.restart),
	}
}

// asks serves calls of tools, or requests for prompts.
func (d *Dashboard) asks(k catalog.Kind) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		rc := http.NewResponseController(w)
		_ = rc.SetReadDeadline(time.Time{}) // which is for the body: later it would end the call, as if the page had left
		answers(func(r *http.Request) (any, error) {
			defer func() { _ = rc.SetWriteDeadline(time.Now().Add(sendTime)) }()
			if err != nil {
				return nil, &refusal{http.StatusRequestEntityTooLarge, "the arguments are too large, or incomplete"}
			}
			return d.ask(r, k, body)
		}).ServeHTTP(w, r)
	})
}

// ask makes a request to a server and records it if it is a call.
func (d *Dashboard) ask(r *http.Request, k catalog.Kind, body []byte) (any, error) {
	var in ask
	if err := json.Unmarshal(body, &in); err != nil || (in.Tool != "") != (k == catalog.Tools) || (in.Prompt != "") != (k == catalog.Prompts) {
		return nil, &refusal{http.StatusBadRequest, `expected {"tool":"NAME","arguments":{}}, or "prompt" with arguments that are texts`}
	}
	name, given, texts := in.Tool+in.Prompt, map[string]any{}, map[string]string{}
	for arg, value := range in.Arguments {
		var text string
		if json.Unmarshal(value, &text) != nil && k == catalog.Prompts {
			return nil, &refusal{http.StatusBadRequest, "the arguments of a prompt are texts, and " + printable.Line(arg, 100) + " is none"}
		}
		given[arg], texts[arg] = value, text
	}
	id, a := r.PathValue("id"), d.opts.Actions
	st, err := d.here(id)
	if err != nil {
		return nil, err
	}
	if _, listed := st.Lists[k].Get(name); !listed {
		return nil, missing("the server does not list " + printable.Line(name, 200))
	}
	if err := a.Refuse(id, k, name); err != nil {
		return nil, &refusal{http.StatusLocked, printable.Reason(err, 500)}
	}
	if !st.Connected() {
		said, _ := st.State.Said(st.Reason)
		return nil, &refusal{http.StatusConflict, "the server is not connected: " + said}
	}
	select {
	case d.acts <- struct{}{}:
		defer func() { <-d.acts }()
	default:
		return nil, &refusal{http.StatusTooManyRequests, fmt.Sprintf("%d calls are running; wait until one of them has ended", maxActions)}
	}
	began := time.Now()
	var raw json.RawMessage
	if k == catalog.Tools {
		raw, err = a.Call(r.Context(), id, name, given)
	} else {
		raw, err = a.Prompt(r.Context(), id, name, texts)
	}
	took := time.Since(began)
	if len(raw) > maxResult && err == nil {
		err = fmt.Errorf("the result has %d bytes, and at most %d are shown", len(raw), maxResult)
	}
	if k == catalog.Tools {
		c := calls.Call{Client: "dashboard", ServerID: printable.Line(id, 128), Tool: printable.Line(name, 128), Outcome: outcome(raw, err), Duration: took}
		if c.Bytes = int64(len(raw)); err != nil && r.Context().Err() == nil {
			c.Code = code(err)
		}
		a.Called(c)
	}
	if err != nil {
		return nil, &refusal{http.StatusBadGateway, printable.Reason(err, 1000)}
	}
	return answered{raw, event.Milliseconds(took), len(raw), pictures(raw)}, nil
}

func outcome(result json.RawMessage, err error) calls.Outcome {
	switch _, failed := session.ToolFailure(result); {
	case err != nil:
		return calls.Error
	case failed:
		return calls.ToolError
	}
	return calls.OK
}

// code returns the code of an error that the server sent, or of one of ours.
func code(err error) int {
	if e, ok := errors.AsType[*session.RPCError](err); ok {
		return e.Code
	}
	return mcp.CodeInternal
}

// pictures returns which elements of a result's content are pictures that a page may decode; see [checkPicture].
func pictures(result json.RawMessage) (all []int) {
	var r struct {
		Content []struct {
			Type string `json:"type"`
			Data string `json:"data"`
		} `json:"content"`
	}
	if json.Unmarshal(result, &r) != nil {
		return nil
	}
	for i, c := range r.Content {
		if c.Type != "image" || len(all) == maxPictures {
			continue
		}
		if data, err := base64.StdEncoding.DecodeString(c.Data); err == nil {
			if _, err := checkPicture(data); err == nil {
				all = append(all, i)
			}
		}
	}
	return all
}

// here returns a server that this process follows.
func (d *Dashboard) here(id string) (status.ServerStatus, error) {
	known, err := d.known(id)
	if err != nil {
		return status.ServerStatus{}, err
	}
	st, here := d.opts.Snapshot().Server(id)
	if !here {
		return st, &refusal{http.StatusConflict, "only the process that follows the server can do this: " + follower(known)}
	}
	return st, nil
}

func (d *Dashboard) restart(r *http.Request) (any, error) {
	if _, err := d.here(r.PathValue("id")); err != nil {
		return nil, err
	}
	d.opts.Logger.Info("a server is restarted from the dashboard", "server", r.PathValue("id"))
	d.opts.Actions.Restart(r.PathValue("id"))
	return struct{}{}, nil
}
