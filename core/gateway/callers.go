package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/mcp"
	"github.com/mcptrack/mcptrack/core/mcpserver"
	"github.com/mcptrack/mcptrack/core/session"
)

const (
	// maxUnclear is how long a request from a server waits until it is clear which client it is for. It
	// is short, because two calls that both ask wait for each other.
	maxUnclear = time.Second
	// maxLate is how long a server may still ask because of a request that its client cancelled.
	maxLate = 20 * time.Second
	// maxAlone is how long a call of a tool that may ask its caller waits for the calls of other
	// clients, and they for it.
	maxAlone = 2 * time.Second
	// maxRootsWait limits how long a client takes to list its roots.
	maxRootsWait = 10 * time.Second
	// maxProven is the maximum number of tools of a server that are known not to ask their callers.
	maxProven = 1000
	// maxRoots is the maximum size of a client's roots.
	maxRoots = 64 << 10
	// maxShareable is the maximum size of the capabilities that [Shareable] returns.
	maxShareable = 4 << 10
)

// Callers lets legacy clients that declare the same capabilities share the tracker's sessions with
// servers, in which those capabilities are declared. The gateways of one tracker use it together.
//
// What a server asks is sent to the client whose request is in progress in the session. If there are
// several, the server waits until one is left; if one of them was cancelled, it receives an error. A
// server that asks for anything other than roots is used by one client from then on, because it will
// ask again, and nothing in what it sends tells clients apart. Other clients then have sessions of
// their own. So that the first question of a tool is clear, a tool that has not been called yet is
// called while no other client has a call in progress, unless that would take longer than 2 s.
//
// A server that asks for roots is shared by the clients whose roots are equal.
//
// A client that has a session of its own keeps it.
//
// Its methods are safe for concurrent use.
type Callers struct {
	mu      sync.Mutex
	servers map[string]*sharedServer // by id in the tracker
	clients map[*mcpserver.Client]*caller
	nobody  *caller       // stands for the clients that cannot be asked
	changed chan struct{} // closed and replaced when a request ends, or a client comes or leaves
}

// sharedServer is a server whose session its clients share. Callers.mu guards it.
type sharedServer struct {
	capabilities json.RawMessage // declared in the session
	mayAsk       bool            // the server may ask for more than roots
	asksRoots    bool            // it may ask for roots
	asked        *rootsAnswers   // of its present session
	roots        json.RawMessage // what the server was told in its present session; nil if it did not ask
	asks         bool            // it has asked for something other than roots
	owner        *caller         // the only client that uses a server that asks; nil if none uses it
	flights      []*flight
	users        map[*caller]bool // clients that have used the session
	proven       map[string]bool  // tools that were called without asking
}

// flight is a client's request in a shared session.
type flight struct {
	of    *caller
	via   *mcpserver.Request
	tool  string    // the tool that it calls, if that is not proven
	alone bool      // requests of other clients wait for it, because of its tool
	sent  bool      // the server may have received the request; until then, it waits for the server to start
	late  time.Time // when to forget the request, if it was cancelled
}

// caller is a connected legacy client.
type caller struct {
	client       *mcpserver.Client
	base         *base           // of its gateway
	capabilities json.RawMessage // see Shareable
	changes      int             // of its roots
	roots        json.RawMessage // nil if the client was not asked since the last change
}

// NewCallers returns a Callers without servers.
func NewCallers() *Callers {
	return &Callers{servers: map[string]*sharedServer{}, clients: map[*mcpserver.Client]*caller{}, nobody: &caller{}, changed: make(chan struct{})}
}

// Shareable returns the capabilities that a session must declare so that a legacy client with the
// given capabilities can share it. It returns nil if the client declares nothing that a server may
// ask for, or if it also runs tasks for servers: then it cannot share sessions that declare more than
// others.
func Shareable(capabilities json.RawMessage) json.RawMessage {
	caps := fields(declaredLegacy(capabilities))
	if len(caps) == 0 || caps["tasks"] != nil {
		return nil
	}
	if raw := encode(caps); len(raw) <= maxShareable {
		return raw
	}
	return nil
}

// Serve sets the capabilities that the tracker's sessions declare, by the server's id in the tracker.
// The sessions of all other servers declare none.
func (c *Callers) Serve(capabilities map[string]json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id := range c.servers {
		if capabilities[id] == nil {
			delete(c.servers, id)
		}
	}
	for id, caps := range capabilities {
		if s := c.servers[id]; s == nil || !bytes.Equal(s.capabilities, caps) {
			all := fields(caps)
			s := &sharedServer{capabilities: caps, asksRoots: all["roots"] != nil, asked: &rootsAnswers{}, users: map[*caller]bool{}, proven: map[string]bool{}}
			delete(all, "roots")
			s.mayAsk = len(all) > 0
			c.servers[id] = s
		}
	}
	c.signal()
}

// ClientSide returns the client on whose behalf the tracker opens a session with a server; see
// tracker.Options.ClientSide. It returns nil if no client shares the session.
func (c *Callers) ClientSide(server string) *session.ClientSide {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[server]
	if s == nil {
		return nil
	}
	s.roots, s.asked = nil, &rootsAnswers{} // this session has not asked yet
	asked := s.asked
	return &session.ClientSide{Capabilities: s.capabilities, Events: true, Asked: asked.begin,
		Request: func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
			defer asked.end(method)
			return c.request(ctx, server, method, params)
		}}
}

// signal wakes everything that waits for a change. c.mu must be held.
func (c *Callers) signal() {
	close(c.changed)
	c.changed = make(chan struct{})
}

// join registers a client of a gateway until leave is called.
func (c *Callers) join(client *mcpserver.Client, of *base) {
	caps := Shareable(client.Capabilities)
	if caps == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clients[client] = &caller{client: client, base: of, capabilities: caps}
	c.signal()
}

func (c *Callers) leave(client *mcpserver.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k := c.clients[client]
	delete(c.clients, client)
	for _, s := range c.servers {
		delete(s.users, k)
		if s.owner == k {
			s.owner = nil
		}
	}
	c.signal()
}

// rootsChanged is called when a client has announced that its roots have changed.
func (c *Callers) rootsChanged(client *mcpserver.Client) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k := c.clients[client]; k != nil {
		k.changes++
		k.roots = nil
	}
}

// enter begins a client's request in the session that the clients of a server share, and reports
// whether the request may use that session: the result is nil if not. Otherwise proceed must be called
// before the request is sent, and end when it has ended. modern means that the session is in the modern
// era, in which a server asks only in its answer to the request.
func (c *Callers) enter(ctx context.Context, server string, r *mcpserver.Request, modern bool) *flight {
	if c == nil || r.Client == nil || levelOf(r.Client) != nil {
		return nil
	}
	f := &flight{via: r}
	if r.Method == mcp.MethodCallTool {
		f.tool = r.Name()
	}
	deadline := time.Now().Add(maxAlone)
	for {
		verdict, changed := c.admit(server, f, modern, time.Now().Before(deadline))
		switch verdict {
		case refused:
			return nil
		case admitted:
			return f
		case rootsUnknown:
			if _, err := c.rootsOf(ctx, f.of, r); err != nil {
				return nil
			}
		case mustWait:
			timer := time.NewTimer(time.Until(deadline))
			select {
			case <-changed:
			case <-timer.C:
			case <-ctx.Done():
			}
			timer.Stop()
			if ctx.Err() != nil {
				return nil
			}
		}
	}
}

// proceed waits until the server of a request, which is connected, knows the roots, if it asks for them.
// It reports whether the request may still use the session: the server may have been told the roots of
// another client while it started.
func (c *Callers) proceed(ctx context.Context, server string, f *flight) bool {
	c.settle(ctx, server)
	for {
		c.mu.Lock()
		s := c.servers[server]
		unknown, differ := s.compare(f.of)
		f.sent = !differ
		c.mu.Unlock()
		if !differ {
			return true
		}
		if !unknown {
			return false
		}
		if _, err := c.rootsOf(ctx, f.of, f.via); err != nil {
			return false
		}
	}
}

var errOtherRoots = errors.New("cannot open a separate session for this client, and its roots are not those that the server was told")

// settle waits until a server that has just been connected and listed knows the roots, if it asks for
// them.
func (c *Callers) settle(ctx context.Context, server string) {
	c.mu.Lock()
	s := c.servers[server]
	if s == nil || !s.asksRoots {
		c.mu.Unlock()
		return
	}
	asked := s.asked
	c.mu.Unlock()
	asked.settle(ctx)
}

// intrude begins a request in the session of a server although enter refused it: no session of its
// own could be opened, or its client cannot be asked at all. Nobody is asked because of such a request
// instead. It fails if the server was told the roots of another client. leave is like end.
func (c *Callers) intrude(ctx context.Context, server string, r *mcpserver.Request) (leave func(answered bool), err error) {
	if c == nil {
		return func(bool) {}, nil
	}
	for {
		c.mu.Lock()
		s, f := c.servers[server], &flight{via: r, of: c.clients[r.Client], sent: true}
		if s == nil {
			c.mu.Unlock()
			return func(bool) {}, nil
		}
		if f.of == nil || !bytes.Equal(f.of.capabilities, s.capabilities) {
			f.of = c.nobody
		}
		unknown, differ := s.compare(f.of)
		if f.of == c.nobody || string(s.roots) == noRoots {
			unknown, differ = false, false
		}
		if !differ {
			s.flights = append(s.flights, f)
		}
		c.mu.Unlock()
		switch {
		case !differ:
			return func(answered bool) { c.end(server, f, answered) }, nil
		case !unknown:
			return nil, errOtherRoots
		}
		if _, err := c.rootsOf(ctx, f.of, r); err != nil {
			return nil, err
		}
	}
}

// verdict is whether a client's request may use a shared session.
type verdict int

const (
	refused verdict = iota
	admitted
	rootsUnknown // it depends on the client's roots
	mustWait     // until a request of another client ends
)

// admit decides whether a request may use the session with a server, and registers it if so. It sets
// f.of, and clears f.tool if the tool need not be called alone. changed is closed when waiting may
// have another result. patient means that the request can wait.
func (c *Callers) admit(server string, f *flight, modern, patient bool) (_ verdict, changed <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, s := c.clients[f.via.Client], c.servers[server]
	if k == nil || s == nil || !bytes.Equal(k.capabilities, s.capabilities) {
		return refused, nil
	}
	f.of = k
	if modern {
		return admitted, nil
	}
	unknown, differ := s.compare(k)
	if unknown {
		return rootsUnknown, nil
	}
	others := slices.DeleteFunc(s.inFlight(), func(other *flight) bool { return other.of == k })
	if differ || s.asks && s.owner != k && (s.owner != nil || len(others) > 0) {
		delete(s.users, k)
		return refused, nil
	}
	if s.asks || s.proven[f.tool] || len(s.proven) >= maxProven || !s.mayAsk {
		f.tool = ""
	}
	isAlone := func(f *flight) bool { return f.alone && f.late.IsZero() }
	if patient && !s.asks && (f.tool != "" && len(others) > 0 || slices.ContainsFunc(others, isAlone)) {
		return mustWait, c.changed
	}
	for _, other := range others {
		other.alone = false // nothing waits a second time
	}
	f.alone = f.tool != "" && len(others) == 0
	if s.asks {
		s.owner = k
	}
	s.users[k] = true
	s.flights = append(s.flights, f)
	return admitted, nil
}

// compare reports whether the roots of a client differ from what the server was told, or may because
// they are not known. Nothing differs if the server has not asked, or is nil.
func (s *sharedServer) compare(k *caller) (unknown, differ bool) {
	if s == nil || s.roots == nil {
		return false, false
	}
	return k.roots == nil, !bytes.Equal(k.roots, s.roots)
}

// inFlight returns the requests that may make the server ask.
func (s *sharedServer) inFlight() []*flight {
	now := time.Now()
	s.flights = slices.DeleteFunc(s.flights, func(f *flight) bool { return !f.late.IsZero() && now.After(f.late) })
	return slices.Clone(s.flights)
}

// end ends what enter or intrude began. answered means that the server has answered the request.
func (c *Callers) end(server string, f *flight, answered bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[server]
	i := -1
	if s != nil {
		i = slices.Index(s.flights, f)
	}
	switch {
	case i < 0: // the session is in the modern era, or the server was removed
		return
	case answered:
		s.flights = slices.Delete(s.flights, i, i+1)
		if f.tool != "" && !s.asks {
			s.proven[f.tool] = true
		}
	default:
		s.flights = slices.DeleteFunc(s.flights, func(other *flight) bool { return other == f || other.of == f.of && !other.late.IsZero() })
		f.late = time.Now().Add(maxLate)
		s.flights = append(s.flights, f)
	}
	c.signal()
}

// request answers a request from a server in a shared session.
func (c *Callers) request(ctx context.Context, server, method string, params json.RawMessage) (json.RawMessage, error) {
	waiting, cancel := context.WithTimeout(ctx, maxUnclear)
	defer cancel()
	for {
		asked, changed, err := c.asked(server, method)
		if err != nil {
			return nil, err
		}
		switch {
		case method == mcp.MethodListRoots:
			if raw, err := c.commonRoots(ctx, server, asked); raw != nil || err != nil {
				return raw, err
			}
		case slices.ContainsFunc(asked, func(f *flight) bool { return !f.late.IsZero() }):
			return nil, &session.RPCError{Code: mcp.CodeInternal, Message: "the client has cancelled its request"}
		case len(asked) == 1 && asked[0].of == c.nobody:
			return nil, notFound()
		case len(asked) == 1:
			return forwardRequest(ctx, asked[0].of.client, asked[0].via, method, params)
		}
		select {
		case <-changed:
		case <-waiting.Done():
			if ctx.Err() != nil {
				return nil, context.Cause(ctx)
			}
			if method == mcp.MethodListRoots {
				c.tell(server, json.RawMessage(noRoots))
			}
			return nil, &session.RPCError{Code: mcp.CodeInternal, Message: "several clients share this session, and it is not clear which of them the request is for; if they call again, each has a session of its own"}
		}
	}
}

// asked returns the clients for which a request from a server may be meant, each with one of its
// requests if it has any. If there is one, and the request is not for roots, it becomes the only
// client that uses the session. changed is closed when the result may have changed.
func (c *Callers) asked(server, method string) (asked []*flight, changed <-chan struct{}, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[server]
	if s == nil || !canAnswer(s.capabilities, method) {
		return nil, nil, notFound()
	}
	roots := method == mcp.MethodListRoots
	add := func(f *flight) {
		i := slices.IndexFunc(asked, func(other *flight) bool { return other.of == f.of })
		switch {
		case i < 0:
			asked = append(asked, f)
		case f.late.IsZero() && f.via != nil:
			asked[i] = f // the newest
		}
	}
	flights := s.inFlight()
	for _, f := range flights {
		if !roots || f.late.IsZero() && f.sent {
			add(f)
		}
	}
	for _, f := range flights {
		if len(asked) == 0 && f.late.IsZero() { // the server starts; proceed checks the roots of the others
			add(f)
		}
	}
	if len(asked) == 0 && s.owner != nil && !roots {
		add(&flight{of: s.owner})
	}
	if len(asked) == 0 {
		for k := range s.users {
			add(&flight{of: k})
		}
	}
	if len(asked) == 0 { // the session has just begun
		for _, k := range c.clients {
			if _, has := k.base.entry(server); has && bytes.Equal(k.capabilities, s.capabilities) && (len(asked) == 0 || !roots) {
				add(&flight{of: k})
			}
		}
	}
	if roots || len(asked) == 0 || len(asked) == 1 && asked[0].of == c.nobody {
		return asked, c.changed, nil
	}
	if !s.asks {
		s.asks = true
		c.signal() // calls that wait to be alone need sessions of their own
	}
	if len(asked) == 1 && asked[0].late.IsZero() && s.owner == nil {
		s.owner = asked[0].of
	}
	return asked, c.changed, nil
}

// commonRoots returns the roots of clients as the answer for a server, or nil if there are no clients
// or their roots differ.
func (c *Callers) commonRoots(ctx context.Context, server string, of []*flight) (json.RawMessage, error) {
	var common json.RawMessage
	for i, f := range of {
		if f.of == c.nobody {
			if len(of) == 1 {
				c.tellNone(server)
				return nil, notFound()
			}
			return nil, nil
		}
		roots, err := c.rootsOf(ctx, f.of, f.via)
		if err != nil && len(of) == 1 {
			return nil, err
		}
		if err != nil || i > 0 && !bytes.Equal(roots, common) {
			return nil, nil
		}
		common = roots
	}
	if common == nil {
		return nil, nil
	}
	c.tell(server, common)
	return encode(map[string]json.RawMessage{"roots": common}), nil
}

// tell records what a server was told in its present session when it asked for roots.
func (c *Callers) tell(server string, roots json.RawMessage) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.servers[server]; s != nil {
		s.roots = roots
	}
}

// tellNone records that a server was told no roots because of a client that cannot be asked. If others
// have used the session, they stay in it: the server asks them again, or knows theirs.
func (c *Callers) tellNone(server string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if s := c.servers[server]; s != nil && s.roots == nil && len(s.users) == 0 {
		s.roots = json.RawMessage(noRoots)
	}
}

// noRoots is what a server was told that received an error instead of roots. No client has these roots.
const noRoots = "-"

// rootsOf returns the roots of a client, which is asked for them once, and again after a change.
func (c *Callers) rootsOf(ctx context.Context, k *caller, via *mcpserver.Request) (json.RawMessage, error) {
	c.mu.Lock()
	roots, changes := k.roots, k.changes
	c.mu.Unlock()
	if roots != nil {
		return roots, nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxRootsWait)
	defer cancel()
	raw, err := forwardRequest(ctx, k.client, via, mcp.MethodListRoots, nil)
	if err != nil {
		return nil, err
	}
	if roots = fields(raw)["roots"]; len(roots) == 0 || len(roots) > maxRoots {
		return nil, &session.RPCError{Code: mcp.CodeInternal, Message: "the client's answer contains no roots, or too many"}
	}
	roots = encode(roots)
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.changes == changes {
		k.roots = roots
	}
	return roots, nil
}

// addressee returns the client of a gateway that a notification from a server is for, or nil. A log
// message is for the client whose request is in progress, if there is one; the end of an elicitation
// is for the client that was asked.
func (c *Callers) addressee(server, method string, of *base) *mcpserver.Client {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.servers[server]
	if s == nil {
		return nil
	}
	k := s.owner
	if method == mcp.NotificationMessage {
		flights := s.inFlight()
		if len(flights) == 0 || slices.ContainsFunc(flights, func(f *flight) bool { return f.of != flights[0].of }) {
			return nil
		}
		k = flights[0].of
	}
	if k == nil || k.base != of {
		return nil
	}
	return k.client
}
