package gateway

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
)

// Bounds of what clients are told about the servers when they connect.
const (
	maxInstructions = 8 << 10  // bytes, for all servers together
	maxExtensions   = 64       // extensions of a server
	maxExtension    = 16 << 10 // bytes of the settings of an extension
)

// about is what a server says of itself when a session begins.
type about struct {
	instructions string
	logging      bool                       // it sends log messages
	tasks        map[string]json.RawMessage // its legacy capability tasks; nil: tools cannot be tasks
	extensions   map[string]json.RawMessage
}

func aboutOf(info session.Info) about {
	a := about{instructions: strings.TrimSpace(printable.Visible(info.Instructions))}
	var caps struct {
		Extensions json.RawMessage `json:"extensions"`
		Logging    json.RawMessage `json:"logging"`
		Tasks      json.RawMessage `json:"tasks"`
	}
	_ = json.Unmarshal(info.RawCapabilities, &caps) // without extensions on an error
	a.logging = isObject(caps.Logging)
	if tasks := fields(caps.Tasks); info.Era == session.EraLegacy && isObject(fields(fields(tasks["requests"])["tools"])["call"]) {
		a.tasks = tasks
	}
	for _, m := range readMembers(caps.Extensions) {
		if len(a.extensions) == maxExtensions {
			break
		}
		if len(m.name) <= maxName && len(m.value) <= maxExtension && isObject(m.value) && catalog.Depth(m.value) <= catalog.MaxDepth {
			if a.extensions == nil {
				a.extensions = map[string]json.RawMessage{}
			}
			a.extensions[m.name] = m.value
		}
	}
	return a
}

// describe merges what the servers say of themselves into what the gateway says of itself.
// own are the gateway's own instructions.
func (v *view) describe(own string, sources []source) mcpserver.Description {
	d := mcpserver.Description{Instructions: own, Extensions: map[string]json.RawMessage{}}
	speakers := 0
	for _, s := range sources {
		if s.about.instructions != "" {
			speakers++
		}
	}
	tasks := map[string]json.RawMessage{}
	for _, s := range sources {
		d.Logging = d.Logging || s.about.logging
		if s.about.tasks != nil {
			tasks["requests"] = json.RawMessage(`{"tools":{"call":{}}}`)
		}
		for _, method := range []string{"list", "cancel"} {
			if isObject(s.about.tasks[method]) {
				tasks[method] = json.RawMessage(`{}`)
			}
		}
		for id, settings := range s.about.extensions {
			if v.extensions[id] = append(v.extensions[id], s.id); len(v.extensions[id]) == 1 {
				d.Extensions[id] = settings
			}
		}
		if s.about.instructions == "" {
			continue
		}
		// Every server gets its share: a long text must not displace the others.
		text := shorten(s.about.instructions, (maxInstructions-len(own))/speakers-maxHeading)
		if v.only == "" {
			text = "# Server " + shorten(printable.Visible(s.id), maxHeading-16) + "\n\n" + text
		}
		if d.Instructions != "" {
			d.Instructions += "\n\n"
		}
		d.Instructions += text
	}
	if len(tasks) > 0 {
		d.Tasks = encode(tasks)
	}
	return d
}

// maxHeading bounds the heading of a server's instructions, with the lines around it.
const maxHeading = 96

// shorten cuts a text to at most limit bytes, at a character boundary.
func shorten(s string, limit int) string {
	if limit = max(limit, 0); len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:max(0, limit-len("…"))], "") + "…"
}

// extension answers the methods that serve.Server leaves to the gateway: logging/setLevel,
// those of tasks, and those of extensions. A request of an extension is forwarded to the
// server that declares the extension; if several do, to the one of them that has the
// resource which the request names.
func (g *Gateway) extension(ctx context.Context, r *mcpserver.Request) (json.RawMessage, error) {
	if r.Method == mcp.MethodSetLevel {
		return g.clients.setLevel(r)
	}
	v := g.view.Load()
	if isTaskMethod(r.Method) {
		w := &way{g: g, v: v, r: r}
		if r.Method == mcp.MethodListTasks && r.Client != nil {
			return w.listTasks(ctx)
		}
		return w.task(ctx)
	}
	name, _, _ := strings.Cut(r.Method, "/")
	var declaring []string
	for id, servers := range v.extensions {
		if id[strings.LastIndexByte(id, '/')+1:] == name {
			declaring = append(declaring, servers...)
		}
	}
	params := fields(r.Params)
	t := target{}
	if len(declaring) > 0 && allEqual(declaring) {
		t.server = declaring[0]
	}
	if uri := r.URI(); uri != "" {
		at, ok := v.resource(uri)
		if !ok || g.api(at.server) != nil {
			return nil, mcpserver.ErrNotFound
		}
		for _, server := range declaring {
			if server == at.server {
				t = at
			}
		}
		if t.server == at.server {
			params["uri"] = quote(at.key)
		}
	}
	if t.server == "" {
		return nil, &mcpserver.Error{Code: mcp.CodeMethodNotFound, Message: "several servers support " + r.Method + ", and the request does not say which of them is meant"}
	}
	return g.forward(ctx, v, r, t, params)
}

func allEqual(list []string) bool {
	for _, s := range list {
		if s != list[0] {
			return false
		}
	}
	return true
}
