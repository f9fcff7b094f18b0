//go:build unix

package chaos

import (
	"bufio"
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// quiet is the server whose notifications are lost: only its resources are also read regularly.
const quiet = "quiet"

// resources is how many resources each server has at the start.
const resources = 8

// server is a fake MCP server behind a real transport: a proxy, or processes of relay. Its resources
// are in this process, so they outlive what fails.
type server struct {
	*oracle
	id, era   string
	transport config.Transport
	random    *rand.Rand
	docs      *sessiontest.Fake
	proxy     *proxy       // nil over stdio
	socket    net.Listener // of the relays
	torn      atomic.Bool  // notifications of updates are cut off, over stdio

	// A tracker reads all resources once after their list was announced to have changed, which repairs what
	// it missed. It does not do so on a steady server.
	steady bool

	changing sync.Mutex            // guards what follows
	second   map[catalog.Kind]bool // of the pair in a list, the second one is there

	mu      sync.Mutex       // guards what follows
	relays  map[net.Conn]int // their process ids
	serving sync.WaitGroup
}

// newServers returns a server of every transport and era, and the one that is quiet.
func newServers(t *testing.T, o *oracle, random *rand.Rand) (all []*server) {
	even := random.IntN(2) == 0
	for _, transport := range []config.Transport{config.TransportStdio, config.TransportHTTP, config.TransportSSE} {
		for _, era := range []string{"legacy", "modern", "both"} {
			if era == "both" && transport != config.TransportHTTP || era == "modern" && transport == config.TransportSSE {
				continue
			}
			s := newServer(t, o, random, string(transport)+"-"+era, transport, era)
			s.steady = len(all)%2 == 0 == even
			all = append(all, s)
		}
	}
	return append(all, newServer(t, o, random, quiet, config.TransportHTTP, "legacy"))
}

func newServer(t *testing.T, o *oracle, random *rand.Rand, id string, transport config.Transport, era string) *server {
	s := &server{oracle: o, id: id, transport: transport, era: era, random: rand.New(rand.NewPCG(random.Uint64(), 0)), docs: sessiontest.New(), relays: map[net.Conn]int{}, second: map[catalog.Kind]bool{}}
	s.docs.Legacy, s.docs.Modern = era != "modern", era != "legacy"
	s.docs.PageSize = 5
	s.swap(false)
	for i := range resources {
		s.set(s.uri(i), false)
	}
	if !s.overHTTP() {
		s.listen(t)
		return s
	}
	handler := http.Handler(s.docs)
	if transport == config.TransportSSE {
		handler = s.docs.SSE()
	}
	served := httptest.NewServer(handler)
	t.Cleanup(func() {
		s.docs.Disconnect()
		served.CloseClientConnections()
		served.Close()
	})
	s.proxy = newProxy(t, served.Listener.Addr().String())
	return s
}

func (s *server) overHTTP() bool { return s.transport != config.TransportStdio }

func (s *server) uri(i int) string { return fmt.Sprintf("file:///%s/%d.md", s.id, i) }

// entry returns the server's entry of a config.
func (s *server) entry(description string) string {
	if s.overHTTP() {
		return fmt.Sprintf(`%q: {"type": %q, "url": %q, "description": %q, "trackResources": true, "trackTools": true, "trackPrompts": true}`, s.id, s.transport, s.proxy.url()+"/mcp", description)
	}
	return fmt.Sprintf(`%q: {"command": %q, "env": {%q: %q}, "description": %q, "trackResources": true, "trackTools": true, "trackPrompts": true}`,
		s.id, os.Args[0], relayVariable, s.socket.Addr(), description)
}

// listen serves relays until the test ends.
func (s *server) listen(t *testing.T) {
	var err error
	if s.socket, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	s.serving.Go(func() {
		for {
			c, err := s.socket.Accept()
			if err != nil {
				return
			}
			s.serving.Go(func() { s.serveRelay(c) })
		}
	})
	t.Cleanup(func() {
		_ = s.socket.Close()
		s.signal(syscall.SIGKILL)
		s.serving.Wait()
	})
}

// serveRelay serves a relay, which says its process id first.
func (s *server) serveRelay(c net.Conn) {
	defer func() { _ = c.Close() }()
	in := bufio.NewReader(c)
	line, _ := in.ReadString('\n')
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return
	}
	s.mu.Lock()
	s.relays[c] = pid
	s.mu.Unlock()
	s.docs.ServeStdio(in, &tearing{c, &s.torn})
	s.mu.Lock()
	delete(s.relays, c)
	s.mu.Unlock()
}

// tearing is a connection that cuts off notifications of updates while torn is set.
type tearing struct {
	net.Conn
	torn *atomic.Bool
}

func (c *tearing) Write(line []byte) (int, error) {
	if !c.torn.Load() || !bytes.Contains(line, []byte("notifications/resources/updated")) {
		return c.Conn.Write(line)
	}
	_, err := c.Conn.Write(append(bytes.Clone(line[:len(line)-20]), '\n'))
	return len(line), err
}

// relay is the process of a server over stdio: it connects stdin and stdout to a socket.
func relay(addr string) error {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(c, os.Getpid()); err != nil {
		return err
	}
	go func() {
		_, _ = c.(*net.TCPConn).ReadFrom(os.Stdin)
		os.Exit(0)
	}()
	_, err = c.(*net.TCPConn).WriteTo(os.Stdout)
	return err
}

// signal sends a signal to the relays that run.
func (s *server) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range s.relays {
		_ = syscall.Kill(pid, sig)
	}
}

// processes returns the number of relays that run.
func (s *server) processes() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.relays)
}

// set gives a resource its next version.
func (s *server) set(uri string, announce bool) {
	text := s.next(fact{server: s.id, name: uri})
	if announce {
		s.docs.Set(uri, text)
	} else {
		s.docs.SetQuietly(uri, text)
	}
}

// change gives some resources their next versions, and replaces items of the lists.
func (s *server) change(announce bool) {
	s.changing.Lock()
	defer s.changing.Unlock()
	for i := range 4 {
		s.set(s.uri(i), announce)
	}
	s.swap(announce)
}

// swap replaces one of a pair by the other: a tool, a prompt, a template and a resource. Another tool,
// prompt and template are redefined. A steady server never announces another list of resources.
func (s *server) swap(announce bool) {
	kinds := []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Templates, catalog.Resources}
	if announce && s.steady {
		kinds = kinds[:2]
	}
	for _, k := range kinds {
		comes, goes := "pair-0", "pair-1"
		if s.second[k] = !s.second[k]; s.second[k] {
			comes, goes = goes, comes
		}
		if k == catalog.Resources {
			s.set("file:///"+s.id+"/"+comes, false)
			s.remove(fact{server: s.id, name: "file:///" + s.id + "/" + goes})
			s.docs.RemoveQuietly("file:///" + s.id + "/" + goes)
		} else {
			var items []any
			for _, name := range []string{"redefined", comes} {
				item := s.item(k, name)
				item["description"] = s.next(fact{s.id, string(k), item[k.KeyField()].(string)})
				items = append(items, item)
			}
			s.remove(fact{s.id, string(k), s.item(k, goes)[k.KeyField()].(string)})
			s.docs.SetList(k, items...)
		}
		if announce && k != catalog.Templates { // one notification is for templates and resources
			s.docs.NotifyListChanged(k)
		}
	}
}

func (s *server) item(k catalog.Kind, name string) map[string]any {
	switch item := map[string]any{"name": name}; k {
	case catalog.Tools:
		item["inputSchema"] = map[string]any{"type": "object"}
		return item
	case catalog.Templates:
		item["uriTemplate"] = "file:///" + s.id + "/" + name + "/{x}"
		return item
	default:
		return item
	}
}

// fault is what can happen to a server while its resources and lists change. It returns when the server
// works again. What changes without an announcement does so before the connection breaks: the tracker
// may connect again at any moment.
type fault struct {
	name    string
	on      func(*server) bool // where it can happen; nil: everywhere but on the quiet server
	happens func(*server)
}

func overHTTP(s *server) bool  { return s.overHTTP() && s.id != quiet }
func overStdio(s *server) bool { return !s.overHTTP() }
func unsteady(s *server) bool  { return !s.steady && s.id != quiet }
func modern(s *server) bool    { return s.era == "modern" }

func (f fault) applies(s *server) bool {
	if f.on == nil {
		return s.id != quiet
	}
	return f.on(s)
}

// outage is how long something fails.
func (s *server) outage() time.Duration {
	if testing.Short() {
		return 300 * time.Millisecond
	}
	return time.Duration(s.random.IntN(3000)) * time.Millisecond
}

func failing(f sessiontest.Fault) func(*server) {
	return func(s *server) {
		s.docs.Fail(f)
		s.change(true)
		pause(s.outage())
		s.docs.Heal()
	}
}

func faults() []fault {
	broken := sessiontest.Fault{Code: -32603, Message: "disk on fire"}
	return []fault{
		{"crash", nil, (*server).crash},
		{"repeated crashes", nil, func(s *server) {
			for range 4 {
				s.crash()
			}
		}},
		{"hang", nil, func(s *server) {
			if s.overHTTP() {
				s.proxy.hold()
				defer s.proxy.release()
			} else {
				s.signal(syscall.SIGSTOP)
				defer s.signal(syscall.SIGCONT)
			}
			s.change(true)
			pause(s.outage())
		}},
		{"connections cut", nil, func(s *server) { s.change(false); s.docs.Disconnect() }},
		{"session forgotten", overHTTP, func(s *server) { s.change(false); s.docs.ForgetSessions() }},
		{"subscriptions forgotten", overHTTP, func(s *server) { s.change(false); s.docs.ForgetSubscriptions() }},
		{"listen ended", modern, func(s *server) { s.change(false); s.docs.EndListens(true) }},
		{"listen cancelled", modern, func(s *server) { s.change(false); s.docs.CancelListens() }},
		{"listen cut", func(s *server) bool { return modern(s) && s.overHTTP() }, func(s *server) { s.change(false); s.docs.EndListens(false) }},
		{"torn lines", overStdio, func(s *server) {
			s.torn.Store(true)
			s.change(true)
			pause(s.outage())
			s.torn.Store(false)
		}},
		{"notifications lost", func(s *server) bool { return s.id == quiet }, func(s *server) {
			s.docs.Mute(true)
			for i := range 4 {
				s.set(s.uri(i), true)
			}
			s.docs.Mute(false)
		}},
		{"resources come and go", unsteady, func(s *server) {
			extra := s.uri(resources)
			s.set(extra, true)
			s.set(extra, true)
			s.docs.RemoveQuietly(s.uri(5))
			s.remove(fact{server: s.id, name: s.uri(5)})
			s.set(s.uri(5), true)
			s.remove(fact{server: s.id, name: extra})
			s.docs.Remove(extra)
		}},
		{"reads fail", nil, failing(sessiontest.Fault{Method: "resources/read", Code: broken.Code, Message: broken.Message})},
		{"reads are slow", nil, failing(sessiontest.Fault{Method: "resources/read", Delay: 200 * time.Millisecond})},
		{"reads unanswered", nil, failing(sessiontest.Fault{Method: "resources/read", Times: 1, Silent: true})},
		{"page two fails", unsteady, failing(sessiontest.Fault{Method: "resources/list", Page: 2, Code: broken.Code, Message: broken.Message})},
		{"HTTP 500", overHTTP, failing(sessiontest.Fault{Status: http.StatusInternalServerError, Body: "oops"})},
		{"HTTP 429", overHTTP, failing(sessiontest.Fault{Status: http.StatusTooManyRequests, Header: map[string]string{"Retry-After": "1"}})},
		{"flood", nil, func(s *server) {
			s.docs.Flood(s.uri(0), 2000)
			s.change(true)
		}},
		{"garbage", nil, func(s *server) {
			for _, m := range []any{map[string]any{"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": map[string]any{"uri": 7}},
				map[string]any{"jsonrpc": "2.0", "id": "nobody", "result": map[string]any{}}, map[string]any{"jsonrpc": "1.0"}, []any{}} {
				s.docs.Broadcast(m)
			}
			s.change(true)
		}},
		{"nothing", func(*server) bool { return true }, func(s *server) { s.change(true) }},
	}
}

// crash kills the process of a server, or drops its connections and sessions.
func (s *server) crash() {
	s.change(false)
	if !s.overHTTP() {
		s.signal(syscall.SIGKILL)
		pause(s.outage() / 4)
		return
	}
	s.proxy.down()
	s.docs.ForgetSessions()
	pause(s.outage() / 4)
	s.proxy.up()
}
