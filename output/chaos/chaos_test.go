//go:build unix

// Package chaos is one test of everything simultaneously: while resources and lists of servers of every
// transport and era change, the servers, their connections, the readers' connections and mcptrack itself
// fail at random. The servers are fake and real processes run mcptrack, with short times and without
// routine comparisons. After every round the oracle compares what the events say, what the processes
// know and what MCP clients of the gateway know with what is true.
//
// With -short, every kind of fault happens at least once, in seconds. Without it, faults happen for the
// duration in MCPTRACK_CHAOS, by default 2m. MCPTRACK_CHAOS_SEED repeats the faults of a run that failed.
package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/eventstream"
	"github.com/mcptrack/mcptrack/core/journal"
	"github.com/mcptrack/mcptrack/core/journal/journaltest"
	"github.com/mcptrack/mcptrack/core/journal/natslog"
	"github.com/mcptrack/mcptrack/core/journal/sqlitelog"
	"github.com/mcptrack/mcptrack/core/tracker"
	"github.com/mcptrack/mcptrack/output/remote"
)

// patience is how long anything may take on a busy machine.
const patience = 90 * time.Second

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// world is the servers, the processes that follow them, and everybody who follows the processes.
type world struct {
	*testing.T
	*oracle
	random    *rand.Rand
	ends      time.Time // when the faults end, without -short
	servers   []*server
	processes []*process
	config    string
	edits     int
	hooks     *endpoint
	clients   map[string]*tracker.Tracker // MCP clients of the gateway
	readers   []*reader
	log       *history
	events    sync.WaitGroup // readers and clients
	cancel    context.CancelFunc
}

// newWorld chooses the seed, and starts the servers.
func newWorld(t *testing.T) *world {
	seed := rand.Uint64()
	if given, err := strconv.ParseUint(os.Getenv("MCPTRACK_CHAOS_SEED"), 10, 64); err == nil {
		seed = given
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("repeat with MCPTRACK_CHAOS_SEED=%d", seed)
		}
	})
	length := 2 * time.Minute
	if given, err := time.ParseDuration(os.Getenv("MCPTRACK_CHAOS")); err == nil {
		length = given
	}
	w := &world{T: t, oracle: newOracle(), random: rand.New(rand.NewPCG(seed, 0)), ends: time.Now().Add(length), hooks: newEndpoint(t),
		config: filepath.Join(t.TempDir(), "mcp-servers.json"), clients: map[string]*tracker.Tracker{}}
	w.servers = newServers(t, w.oracle, w.random)
	w.edit()
	return w
}

// edit writes the config, with new descriptions.
func (w *world) edit() {
	var entries []string
	for _, s := range w.servers {
		entries = append(entries, s.entry(fmt.Sprint("edit ", w.edits)))
	}
	w.edits++
	w.save(fmt.Sprintf(`{"mcpServers": {%s}, "webhooks": [{"url": %q, "secret": %q, "allowPrivate": true, "types": ["resource.updated"]}]}`,
		strings.Join(entries, ",\n"), w.hooks.url+"/config", secret))
}

func (w *world) save(text string) {
	w.Helper()
	if err := errors.Join(os.WriteFile(w.config+".new", []byte(text), 0o600), os.Rename(w.config+".new", w.config)); err != nil {
		w.Fatal(err)
	}
}

// add starts a process, with a proxy for each of its readers and one for its MCP clients.
func (w *world) add(at place, readers int) {
	w.Helper()
	at.Config, at.Subscribe = w.config, w.hooks.url+"/subscription"
	p := &process{T: w.T, place: at}
	for range 2 + readers {
		p.proxies = append(p.proxies, newProxy(w.T, "127.0.0.1:1"))
	}
	w.processes = append(w.processes, p)
	p.start()
	w.Cleanup(p.kill)
}

// follow waits until the processes know everything. From then on readers follow the events, and, if
// asked for, MCP clients follow the gateway.
func (w *world) follow(gateway bool) {
	w.Helper()
	w.until("the processes know all servers", func() []string { unknown, _ := w.unknown(); return unknown })
	w.log = &history{T: w.T, view: newView(w.oracle), seed: maphash.MakeSeed(), entries: map[uint64]entry{}}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = sync.OnceFunc(func() {
		cancel()
		w.events.Wait()
	})
	w.Cleanup(w.cancel)
	for i, p := range w.processes {
		for j, x := range p.proxies[2:] {
			r := &reader{name: fmt.Sprintf("reader %d of process %d", j, i), log: w.log, slow: j == 1}
			w.readers = append(w.readers, r)
			w.events.Go(func() {
				if err := remote.Follow(ctx, remote.FeedOptions{URL: x.url() + "/events?since=earliest"}, r.note); err != nil {
					w.Errorf("%s: %v", r.name, err)
				}
			})
		}
	}
	if gateway {
		w.followGateway(ctx)
	}
	// The first looks are stored some time later. After these changes, events tell every content.
	for _, s := range w.servers {
		s.set("file:///"+s.id+"/pair-1", true)
		for i := range resources {
			s.set(s.uri(i), true)
		}
	}
	w.until("the truth at the beginning", w.wrong)
}

// followGateway starts MCP clients of the gateway.
func (w *world) followGateway(ctx context.Context) {
	for _, era := range []config.Protocol{config.ProtocolLegacy, config.ProtocolModern} {
		srv := config.HTTP(string(era), w.processes[0].proxies[1].url()+"/mcp")
		srv.Protocol, srv.RequestTimeout = era, 5*time.Second
		srv.TrackAll()
		srv.SafetyInterval = -1
		client := tracker.New(hurried())
		client.Apply(&config.Config{Servers: []config.Server{srv}})
		w.clients["the gateway's "+string(era)+" client"] = client
		w.events.Go(func() { _ = client.Run(ctx) })
	}
}

// until waits until nothing is missing.
func (w *world) until(what string, missing func() []string) {
	w.Helper()
	for end := time.Now().Add(patience); ; pause(20 * time.Millisecond) {
		if w.Failed() {
			w.FailNow()
		}
		missing := missing()
		if len(missing) == 0 {
			return
		}
		if time.Now().After(end) {
			slices.Sort(missing)
			for _, p := range w.processes {
				w.Logf("a process wrote:\n%s", &p.errors)
			}
			w.Fatalf("not within %v: %s:\n%s", patience, what, strings.Join(missing[:min(len(missing), 20)], "\n"))
		}
	}
}

// unknown returns what the processes, of which each follows some servers, do not know, and the number of
// the newest event.
func (w *world) unknown() (unknown []string, newest uint64) {
	var all []known
	for _, p := range w.processes {
		r, err := p.report()
		if err != nil {
			return []string{err.Error()}, 0
		}
		all, newest = append(all, r.Known...), max(newest, r.Last)
	}
	return w.unlike("the tracker", all), newest
}

// wrong returns everything that is not as it should be when it is quiet.
func (w *world) wrong() []string {
	wrong, newest := w.unknown()
	if len(wrong) > 0 {
		return wrong
	}
	for name, c := range w.clients {
		wrong = append(wrong, w.unlike(name, throughGateway(knowledge(c.Snapshot())))...)
	}
	for _, r := range w.readers {
		if last := r.position(); last < newest {
			wrong = append(wrong, fmt.Sprintf("%s has received %d of %d events", r.name, last, newest))
		}
	}
	return append(wrong, w.log.wrong()...)
}

// unstored returns the lists that the log on a cluster does not have.
func (w *world) unstored(cluster string) (lists []string) {
	log, err := natslog.Open(w.Context(), natslog.Options{URL: cluster, Existing: true})
	if err != nil {
		return []string{err.Error()}
	}
	defer func() { _ = log.Close() }()
	stored, err := log.States(w.Context(), "")
	if err != nil {
		return []string{err.Error()}
	}
	for _, s := range w.servers {
		for _, kind := range []catalog.Kind{catalog.Tools, catalog.Prompts, catalog.Templates, catalog.Resources} {
			if _, ok := stored.Lists[journal.ListName{ServerID: s.id, Kind: kind}]; !ok {
				lists = append(lists, s.id+" "+string(kind))
			}
		}
	}
	return lists
}

// throughGateway returns what a client of the gateway knows, as if it knew it from the servers.
func throughGateway(all []known) (out []known) {
	for _, k := range all {
		switch k.List {
		case "tools", "prompts":
			k.Server, k.Name, _ = strings.Cut(k.Name, "_")
		default:
			k.Server, _, _ = strings.Cut(strings.TrimPrefix(k.Name, "file:///"), "/")
		}
		out = append(out, k)
	}
	return out
}

// incident is what can happen to the processes, while faults happen to the servers.
type incident struct {
	name    string
	happens func(*world)
}

// any returns one of the processes.
func (w *world) any() *process { return w.processes[w.random.IntN(len(w.processes))] }

// meanwhile changes back, while nobody follows the servers, what a fault changes.
func (w *world) meanwhile() {
	if len(w.processes) == 1 {
		for _, s := range w.servers {
			s.change(false)
		}
	}
}

// moment is a random time in the life of a process or connection.
func (w *world) moment() time.Duration {
	longest := 4 * time.Second
	if testing.Short() {
		longest = 300 * time.Millisecond
	}
	return time.Duration(w.random.Int64N(int64(longest)))
}

func incidents() []incident {
	return []incident{
		{"killed", func(w *world) {
			p := w.any()
			pause(w.moment())
			p.kill()
			w.meanwhile()
			p.start()
		}},
		{"killed while it starts", func(w *world) {
			p := w.any()
			p.kill()
			p.launch()
			pause(w.moment() / 2)
			p.kill()
			p.start()
		}},
		{"stopped and started", func(w *world) {
			p := w.any()
			p.stop()
			w.meanwhile()
			p.start()
		}},
		{"suspended", func(w *world) {
			p := w.any()
			p.signal(syscall.SIGSTOP)
			pause(w.moment())
			p.signal(syscall.SIGCONT)
		}},
		{"config edited", func(w *world) {
			w.edit()
			pause(w.moment())
			w.save("{")
			pause(w.moment() / 2)
			w.edit()
		}},
		{"readers cut off", func(w *world) {
			p := w.any()
			for _, x := range p.proxies[1:] {
				x.hold()
			}
			pause(w.moment())
			for i, x := range p.proxies[1:] {
				if x.release(); i%2 == 0 {
					x.cut()
				}
			}
		}},
	}
}

// ofCluster are the incidents of processes that share a log on a cluster.
func ofCluster(nodes *journaltest.Cluster) []incident {
	away := func(w *world, which ...int) {
		nodes.Kill(which...)
		pause(w.moment())
		nodes.Start(w.T, which...)
	}
	all := slices.DeleteFunc(incidents(), func(i incident) bool { return i.name != "killed" && i.name != "stopped and started" })
	all = append(all, incident{"leader killed", func(w *world) {
		name, err := nodes.KillLeader(w.Context(), "mcptrack")
		if err != nil {
			w.Fatal(err)
		}
		i, _ := strconv.Atoi(strings.TrimPrefix(name, "n"))
		away(w, i)
	}})
	if testing.Short() {
		return all
	}
	return append(all,
		incident{"node killed", func(w *world) { away(w, w.random.IntN(3)) }},
		incident{"two nodes killed", func(w *world) { i := w.random.IntN(3); away(w, i, (i+1)%3) }},
		incident{"all nodes killed", func(w *world) { away(w, 0, 1, 2) }},
		incident{"suspended until others follow its servers", func(w *world) {
			p := w.any()
			p.signal(syscall.SIGSTOP)
			pause(natslog.DefaultLease + 2*time.Second)
			for _, s := range w.servers {
				s.set(s.uri(7), true)
			}
			p.signal(syscall.SIGCONT)
		}})
}

// rounds lets all incidents happen, and with them faults; with -short once, and every fault at least
// once if there are enough rounds. It waits for the truth after each round, and returns the names of the
// faults that did not happen.
func (w *world) rounds(incidents []incident) (missing []string) {
	w.Helper()
	deal, missed := w.deal()
	for n := 0; ; n++ {
		if n%len(incidents) == 0 {
			if n > 0 && (testing.Short() || time.Now().After(w.ends)) {
				return missed()
			}
			w.random.Shuffle(len(incidents), func(i, j int) { incidents[i], incidents[j] = incidents[j], incidents[i] })
		}
		incident, names := incidents[n%len(incidents)], []string(nil)
		var failing sync.WaitGroup
		for _, s := range w.servers {
			f := deal(s)
			names = append(names, s.id+": "+f.name)
			failing.Go(func() {
				f.happens(s)
				s.set(s.uri(6), true)
			})
		}
		w.hooks.refuse(1)
		began := time.Now()
		incident.happens(w)
		failing.Wait()
		over := time.Now()
		what := fmt.Sprintf("the truth after %s; %s", incident.name, strings.Join(names, ", "))
		w.until(what, w.wrong)
		w.Logf("%v + %v: %s", over.Sub(began).Round(time.Millisecond), time.Since(over).Round(time.Millisecond), what)
	}
}

// deal returns the next fault for a server, of those that have not happened for the longest time. missed
// returns the names of those that have not happened.
func (w *world) deal() (next func(*server) fault, missed func() []string) {
	all, happened := faults(), map[string]bool{}
	w.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	next = func(s *server) fault {
		i := slices.IndexFunc(all, func(f fault) bool { return f.applies(s) })
		f := all[i]
		happened[f.name] = true
		all = append(slices.Delete(all, i, i+1), f)
		return f
	}
	return next, func() (names []string) {
		for _, f := range all {
			if !happened[f.name] {
				names = append(names, f.name)
			}
		}
		return names
	}
}

// end stops everything in order, and looks at what is left.
func (w *world) end() {
	w.Helper()
	w.until("the truth at the end", w.wrong)
	w.until("all webhooks are delivered", func() []string { return w.hooks.missing(w.log.changes()) })
	for _, p := range w.processes {
		p.stop()
	}
	w.until("no process of a server is left", func() (left []string) {
		for _, s := range w.servers {
			if n := s.processes(); n > 0 {
				left = append(left, fmt.Sprintf("%d of %s", n, s.id))
			}
		}
		return left
	})
	w.cancel()
	w.Logf("%d changes, %d events, %d of webhooks", w.serial, w.log.last, len(w.hooks.got["/config"]))
}

// history is the log as its readers received it.
type history struct {
	*testing.T
	seed maphash.Seed

	mu      sync.Mutex // guards what follows
	view    *view
	last    uint64
	entries map[uint64]entry
}

type entry struct {
	hash    uint64
	id      string
	changed bool // the content of a resource
}

// take notes an event that a reader received. It returns an error if another reader received another one
// under the number.
func (h *history) take(seq uint64, id, data string) error {
	hash := maphash.String(h.seed, data)
	h.mu.Lock()
	defer h.mu.Unlock()
	if known, seen := h.entries[seq]; seen {
		if known.hash != hash || known.id != id {
			return fmt.Errorf("%s is not what others received as %s", data, known.id)
		}
		return nil
	}
	var e event.Event
	if err := e.UnmarshalJSON([]byte(data)); err != nil {
		return fmt.Errorf("%w: %s", err, data)
	}
	update, ok := e.Payload.(event.ResourceUpdated)
	h.entries[seq], h.last = entry{hash, id, ok && (update.Changed == nil || *update.Changed)}, seq
	if err := h.view.take(&e); err != nil {
		return fmt.Errorf("%w: %s", err, data)
	}
	return nil
}

// wrong returns what the events do not tell.
func (h *history) wrong() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.view.wrong()
}

// changes returns the ids of the events about changed contents, in order.
func (h *history) changes() (ids []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for seq := uint64(1); seq <= h.last; seq++ {
		if e := h.entries[seq]; e.changed {
			ids = append(ids, e.id)
		}
	}
	return ids
}

// reader follows the feed of a process. It must receive every event once, in order.
type reader struct {
	name string
	log  *history
	slow bool

	mu    sync.Mutex // guards what follows
	epoch string
	last  uint64
}

func (r *reader) position() uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.last
}

// note takes an event of the feed. Gaps are errors: nothing expires here.
func (r *reader) note(e eventstream.Event) error {
	if e.Type == "checkpoint" || e.Type == "tracker_stopped" {
		return nil
	}
	if r.slow {
		pause(time.Millisecond)
	}
	epoch, seq, err := event.ParseID(e.ID)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if seq != r.last+1 || r.epoch != "" && r.epoch != epoch || e.Type == "gap" {
		return fmt.Errorf("%s %s follows %s-%d: %s", e.Type, e.ID, r.epoch, r.last, e.Data)
	}
	r.epoch, r.last = epoch, seq
	return r.log.take(seq, e.ID, string(e.Data))
}

// endpoint receives webhooks. It sometimes refuses a message once.
type endpoint struct {
	t   *testing.T
	url string

	mu     sync.Mutex                   // guards what follows
	got    map[string]map[string]string // contents by path and id
	gaps   map[string]int               // by path
	denied map[string]bool              // by path and id
	deny   int                          // how many messages will be refused
}

func newEndpoint(t *testing.T) *endpoint {
	e := &endpoint{t: t, got: map[string]map[string]string{"/config": {}, "/subscription": {}}, gaps: map[string]int{}, denied: map[string]bool{}}
	s := httptest.NewServer(e)
	t.Cleanup(s.Close)
	e.url = s.URL
	return e
}

// refuse makes the endpoint refuse the next new messages.
func (e *endpoint) refuse(messages int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.deny = messages
}

func (e *endpoint) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	raw, _ := io.ReadAll(q.Body)
	var body struct {
		Type, EventID, Name, Timestamp string
		Data                           json.RawMessage
	}
	if err := json.Unmarshal(raw, &body); err != nil {
		return // cut off, as its sender was killed
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if body.Type == "gap" {
		e.gaps[q.URL.Path]++
		return
	}
	if key := q.URL.Path + body.EventID; e.deny > 0 && !e.denied[key] {
		e.deny--
		e.denied[key] = true
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	content := fmt.Sprint(body.Name, body.Timestamp, string(body.Data))
	before, again := e.got[q.URL.Path][body.EventID]
	if again && before != content || body.EventID == "" || body.EventID != q.Header.Get("webhook-id") {
		e.t.Errorf("%s came as %s and as %s", q.Header.Get("webhook-id"), before, content)
	}
	e.got[q.URL.Path][body.EventID] = content
}

// missing returns which of these events were not delivered, from the first one that was, although no gap
// was reported.
func (e *endpoint) missing(ids []string) (missing []string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for path, got := range e.got {
		first := slices.IndexFunc(ids, func(id string) bool { return got[id] != "" })
		if first < 0 {
			missing = append(missing, "everything at "+path)
			continue
		}
		for _, id := range ids[first:] {
			if got[id] == "" && e.gaps[path] == 0 {
				missing = append(missing, path+" "+id)
			}
		}
	}
	return missing
}

// One process with a log in a file and a gateway.
func TestChaos(t *testing.T) {
	w, dir := newWorld(t), t.TempDir()
	w.add(place{Dir: dir}, 3)
	w.follow(true)
	if missing := w.rounds(incidents()); len(missing) > 0 {
		t.Errorf("these faults did not happen: %q", missing)
	}
	w.end()
	log, err := sqlitelog.Open(t.Context(), sqlitelog.Options{Dir: dir, Existing: true})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = log.Close() }()
	stored := 0
	for e, err := range log.Read(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if stored++; e.Seq <= w.log.last {
			if err := w.log.take(e.Seq, e.ID, string(e.Data())); err != nil {
				t.Error(err)
			}
		}
	}
	if uint64(stored) < w.log.last {
		t.Errorf("%d events were sent, and %d are stored", w.log.last, stored)
	}
}

// Processes that share the servers and a log on a cluster of three NATS nodes.
func TestRealChaosOnACluster(t *testing.T) {
	nodes, keys := journaltest.StartCluster(t), filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(keys, []byte("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	for i := range 3 {
		urls := append(slices.Clone(nodes.URLs[i:]), nodes.URLs[:i]...)
		w.add(place{NATS: strings.Join(urls, ","), Keys: keys}, 1)
	}
	w.follow(false)
	w.until("the first lists, which no event tells, are stored", func() []string { return w.unstored(nodes.URLs[0]) })
	w.rounds(ofCluster(nodes))
	w.end()
	if t.Failed() {
		t.Log(nodes.Report(context.Background()))
	}
}
