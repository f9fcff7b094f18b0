package tracker

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

var (
	truthSeeds = flag.Int("truth.seeds", 15, "how many random histories TestPromiseLastEventTellsTheTruth tries in every era")
	truthFirst = flag.Uint64("truth.first", 0, "the first of them")
)

// TestPromiseLastEventTellsTheTruth does random things to a server and to its config entry, lets it
// settle, and compares the last event of every resource with the truth on the server. A second
// server, to which nothing happens, must not be affected. There is no routine comparison that would
// repair what was missed.
func TestPromiseLastEventTellsTheTruth(t *testing.T) {
	for _, era := range []session.Era{session.EraLegacy, session.EraModern} {
		t.Run(string(era), func(t *testing.T) {
			for i := range *truthSeeds {
				seed := *truthFirst + uint64(i)
				synctest.Test(t, func(t *testing.T) { truth(t, era, seed) })
				if t.Failed() {
					t.Fatalf("seed %d", seed)
				}
			}
		})
	}
}

func truth(t *testing.T, era session.Era, seed uint64) {
	rng := rand.New(rand.NewPCG(seed, 1))
	opts := Options{Resync: 1000 * time.Hour, Texts: rng.IntN(2) == 0, Reads: rng.IntN(4)}
	if rng.IntN(4) == 0 {
		opts.Session.Limits.MaxDirty = 1 + rng.IntN(4) // overflows, which it reports
	}
	if rng.IntN(2) == 0 {
		opts.MaxTexts = 100
	}
	w := newWorld(t, opts)
	c := &chaos{w: w, rng: rng, docs: w.Serve("docs", era), era: era, push: true, read: true, base: func(s *config.Server) { s.SafetyInterval = -1 },
		exist: map[string]bool{}}
	switch rng.IntN(8) {
	case 0:
		c.push = false
		c.docs.Capabilities["resources"] = map[string]any{"listChanged": true}
	case 1:
		c.read = false
		c.base = func(s *config.Server) { s.Read, s.SafetyInterval = config.ReadNone, -1 }
	case 2:
		c.push = era == session.EraLegacy
		c.docs.FailAck(sessiontest.AckFault{Hide: []string{"file:///1.md", "file:///2.md"}, NoTools: true})
	}
	c.docs.PageSize = 1 + rng.IntN(5)
	for i := range 6 {
		c.exist[fmt.Sprintf("file:///%d.md", i)] = true
		c.docs.SetQuietly(fmt.Sprintf("file:///%d.md", i), "version 0")
	}
	quiet := &calm{w: w, server: w.Serve("calm", session.EraLegacy)}
	quiet.server.SetQuietly("file:///calm.md", "one")
	w.start(c.entry(true), sessiontest.Entry("calm"))
	w.pass(3 * time.Second)
	o := &observer{c: c, view: map[string]known{}, baseline: digests(w), begin: w.tracker.Snapshot()}
	for range 40 {
		c.step()
		quiet.change(o)
		w.pass(time.Duration(rng.ExpFloat64() * float64(400*time.Millisecond)))
	}
	c.note("healed")
	c.docs.Heal()
	excluded := c.exclude
	c.exclude = nil
	c.configure(true, excluded...)
	w.pass(2 * time.Minute) // backed off, connected, polled, compared, settled
	o.check()
	if rng.IntN(2) == 0 && c.push && !w.Failed() { // the end in the middle of everything
		for range 5 {
			if uri := c.uri(); c.exist[uri] { // a new one interrupts the listen of a modern server for a moment
				c.put(uri, c.text())
			}
			w.pass(c.upTo(1500 * time.Millisecond))
		}
		w.stopped()
		synctest.Wait()
		c.note("stopped")
		o.stopped = true
		o.check()
	}
	quiet.check(o)
	w.stopped()
	if n := w.tracker.texts.used.Load(); n != 0 {
		w.Errorf("%d bytes of text are still accounted for", n)
	}
	if w.Failed() {
		for _, d := range c.did {
			w.Log(d)
		}
		w.Logf("events of docs:\n%s", o.log())
	}
}

// calm is a server to which nothing happens except an occasional change.
type calm struct {
	w       *world
	server  *sessiontest.Fake
	changes []time.Time
}

func (q *calm) change(*observer) {
	if n := len(q.changes); n == 0 || time.Since(q.changes[n-1]) > 5*time.Second {
		q.changes = append(q.changes, time.Now())
		q.server.Set("file:///calm.md", fmt.Sprint("version ", n))
	}
}

// check checks that every change was published immediately.
func (q *calm) check(o *observer) {
	var published []time.Time
	for _, e := range q.w.published(event.TypeResourceUpdated) {
		if e.ServerID == "calm" {
			published = append(published, e.Timestamp)
		}
	}
	for i, at := range q.changes {
		if !slices.ContainsFunc(published, func(t time.Time) bool { return !t.Before(at) && t.Sub(at) < 50*time.Millisecond }) {
			q.w.Errorf("calm: change %d at %v was not published within 50 ms", i, at.Format("04:05.000"))
		}
	}
	if n := len(q.w.Dialled("calm")); n != 1 {
		q.w.Errorf("calm: dialled %d times", n)
	}
}

func digests(w *world) map[string]catalog.Digest {
	out := map[string]catalog.Digest{}
	st, _ := w.tracker.Snapshot().Server("docs")
	for _, r := range st.Resources {
		out[r.URI] = r.Digest
	}
	return out
}

// trueDigests reads every resource that ever existed, with a session of its own; the digest of a
// resource that is gone is zero.
func trueDigests(docs *sessiontest.Fake) map[string]catalog.Digest {
	out := map[string]catalog.Digest{}
	gone := map[string]bool{}
	for _, c := range docs.Truth() {
		gone[c.URI] = c.Gone
	}
	r, w, wait := docs.Pipe()
	s, err := session.OverIO(context.Background(), r, w, sessiontest.Entry("truth"), session.Options{})
	if err != nil {
		panic(err)
	}
	for uri, isGone := range gone {
		out[uri] = catalog.Digest{}
		if isGone {
			continue
		}
		if c, err := s.Read(context.Background(), uri); err == nil {
			out[uri] = c.Digest
		}
	}
	_ = s.Close()
	wait()
	return out
}

// chaos does random things to the server "docs" and to its entry in the config. The server obeys
// the rules: it announces every change that is made while clients are connected.
type chaos struct {
	w    *world
	rng  *rand.Rand
	docs *sessiontest.Fake
	era  session.Era
	base func(*config.Server) // of the entry, for the whole run
	push bool                 // the server announces all updates
	read bool                 // content is read

	next    int
	did     []string
	exist   map[string]bool // whether a resource that ever existed still does
	tools   []string
	exclude []string
	noTools bool
	restart int // changes of the arguments
	anew    []anew
}

// anew is a resource, or all for "", that a consumer has to learn again after an event, because it
// was not followed for a while.
type anew struct {
	uri   string
	after uint64
}

type step struct {
	weight int
	name   string
	do     func()
}

func (c *chaos) uri() string  { return fmt.Sprintf("file:///%d.md", c.rng.IntN(8)) }
func (c *chaos) text() string { c.next++; return fmt.Sprint("version ", c.next) }

func (c *chaos) upTo(d time.Duration) time.Duration { return time.Duration(c.rng.Int64N(int64(d) + 1)) }

func (c *chaos) note(format string, args ...any) {
	c.did = append(c.did, time.Now().Format("04:05.000 ")+fmt.Sprintf(format, args...))
}

// put changes a resource and announces it: the list if the resource is new there, and the update to
// clients that were subscribed before it was removed.
func (c *chaos) put(uri, text string) {
	c.note("put %s = %s", uri, text)
	was, ever := c.exist[uri]
	c.exist[uri] = true
	c.docs.SetQuietly(uri, text)
	if !was {
		c.docs.NotifyListChanged(catalog.Resources)
	}
	if ever {
		c.docs.NotifyUpdated(uri)
	}
}

func (c *chaos) remove(uri string) {
	if c.exist[uri] {
		c.note("remove %s", uri)
		c.exist[uri] = false
		c.docs.Remove(uri)
	}
}

func (c *chaos) fail(f sessiontest.Fault) { c.docs.Fail(f) }

// away makes the server unreachable for a while, during which things change.
func (c *chaos) away(d time.Duration) {
	c.w.SetDown("docs", sessiontest.ErrRefused)
	c.w.pass(c.upTo(d))
	for range c.rng.IntN(4) {
		c.put(c.uri(), c.text())
	}
	if c.rng.IntN(2) == 0 {
		c.remove(c.uri())
	}
	c.w.SetDown("docs", nil)
}

// configure applies the entry that chaos wants now.
func (c *chaos) configure(resources bool, uris ...string) {
	forget := func() {
		for _, uri := range uris {
			c.anew = append(c.anew, anew{uri, c.w.tracker.Snapshot().Seq})
		}
	}
	forget()
	c.w.apply(c.entry(resources), sessiontest.Entry("calm"))
	synctest.Wait()
	forget()
}

func (c *chaos) entry(resources bool) config.Server {
	return sessiontest.Entry("docs", c.base, func(s *config.Server) {
		s.TrackResources, s.TrackTools, s.Exclude = resources, !c.noTools, slices.Clone(c.exclude)
		s.Env = map[string]config.Secret{"RESTART": config.NewSecret(fmt.Sprint(c.restart))}
	})
}

// listens are the faults that only modern servers have.
func (c *chaos) endListens() {
	if c.rng.IntN(2) == 0 {
		c.docs.EndListens(true)
	} else {
		c.docs.CancelListens()
	}
}

func (c *chaos) steps() []step {
	read := func(f sessiontest.Fault) func() {
		return func() { f.Method, f.Times = "resources/read", 1+c.rng.IntN(3); c.fail(f) }
	}
	list := func(f sessiontest.Fault) func() {
		return func() { f.Method, f.Times, f.Page = "resources/list", 1, c.rng.IntN(3); c.fail(f) }
	}
	steps := []step{
		{40, "", func() { c.put(c.uri(), c.text()) }},
		{4, "there and back", func() { uri := c.uri(); c.put(uri, "other"); c.put(uri, "version 0") }},
		{6, "", func() { c.remove(c.uri()) }},
		{2, "gone and back", func() { uri := c.uri(); c.remove(uri); c.put(uri, c.text()) }},
		{6, "an announcement for nothing", func() { c.docs.NotifyUpdated(c.uri()) }},
		{4, "a list announcement for nothing", func() { c.docs.NotifyListChanged(catalog.Resources) }},
		{5, "other tools", c.otherTools},
		{5, "a part changes, and what it is part of", func() {
			uri := c.uri()
			if c.exist[uri] {
				c.put(uri+"/part", c.text())
				c.note("and %s", uri)
				c.docs.SetQuietly(uri, c.text())
				c.docs.NotifyUpdated(uri + "/part")
				c.docs.NotifyUpdated(uri)
			}
		}},
		{4, "disconnect", c.docs.Disconnect},
		{3, "away", func() { c.away(3 * time.Second) }},
		{1, "long away", func() { c.away(time.Minute) }},
		{3, "slow reads", read(sessiontest.Fault{Delay: c.upTo(4 * time.Second)})},
		{3, "failing reads", read(sessiontest.Fault{Code: -32603, Message: "disk on fire"})},
		{2, "reads without an answer", func() { c.fail(sessiontest.Fault{Method: "resources/read", Times: 1, Silent: true}) }},
		{2, "failing list", list(sessiontest.Fault{Code: -32603, Message: "disk on fire"})},
		{3, "slow list", list(sessiontest.Fault{Delay: c.upTo(2 * time.Second)})},
		{3, "slow subscribe", func() {
			for _, m := range []string{"resources/subscribe", "subscriptions/listen"} {
				c.fail(sessiontest.Fault{Method: m, Times: 1, Delay: c.upTo(2 * time.Second)})
			}
		}},
		{2, "slow everything", func() {
			c.fail(sessiontest.Fault{Delay: c.upTo(500 * time.Millisecond)})
			c.w.pass(c.upTo(3 * time.Second))
			c.put(c.uri(), c.text())
			c.docs.Heal()
		}},
		{3, "flood", func() { c.docs.Flood(c.uri(), 100) }},
		{2, "deaf for a while, then gone", func() {
			c.docs.Mute(true)
			c.put(c.uri(), c.text())
			c.w.pass(c.upTo(time.Second))
			c.docs.Disconnect()
			c.docs.Mute(false)
		}},
		{1, "silent death", func() {
			c.fail(sessiontest.Fault{Silent: true})
			c.docs.Mute(true)
			c.put(c.uri(), c.text())
			c.w.pass(40 * time.Second)
			c.docs.Heal()
		}},
		{2, "suspension", func() {
			c.w.suspend(c.docs, c.uri(), 5*time.Second+c.upTo(20*time.Second))
			c.w.pass(c.upTo(time.Second))
			c.put(c.uri(), c.text())
			c.w.pass(c.upTo(time.Second))
			for c.w.logs.stallAt("read failed", 0); c.w.logs.holds(); c.w.pass(100 * time.Millisecond) {
			}
		}},
	}
	if c.era == session.EraModern {
		steps = append(steps, step{5, "the listen ends", c.endListens})
	}
	if c.read {
		steps = append(steps, c.configSteps()...)
	}
	return steps
}

// configSteps change the entry.
func (c *chaos) configSteps() []step {
	return []step{
		{3, "tools on or off", func() { c.noTools = !c.noTools; c.configure(true) }},
		{3, "another exclusion", func() {
			was := c.exclude
			if c.exclude = nil; c.rng.IntN(2) == 0 {
				c.exclude = []string{c.uri()}
			}
			c.configure(true, slices.Concat(was, c.exclude)...)
		}},
		{2, "resources off and on", func() {
			c.configure(false)
			c.w.pass(c.upTo(2 * time.Second))
			c.put(c.uri(), c.text())
			c.configure(true, "")
		}},
		{1, "another process", func() { c.restart++; c.configure(true) }},
		{1, "removed and back", func() {
			c.w.apply(sessiontest.Entry("calm"))
			c.w.pass(c.upTo(3 * time.Second))
			c.configure(true, "")
		}},
	}
}

func (c *chaos) otherTools() {
	c.next++
	c.tools = append(c.tools, fmt.Sprint("tool ", c.next))
	if len(c.tools) > 3 {
		c.tools = c.tools[1:]
	}
	items := make([]any, len(c.tools))
	for i, name := range c.tools {
		items[i] = map[string]any{"name": name}
	}
	c.docs.SetList(catalog.Tools, items...)
	c.docs.NotifyListChanged(catalog.Tools)
}

// step takes one random step.
func (c *chaos) step() {
	steps := c.steps()
	total := 0
	for _, s := range steps {
		total += s.weight
	}
	n := c.rng.IntN(total)
	for _, s := range steps {
		if n -= s.weight; n < 0 {
			if s.name != "" {
				c.note("%s", s.name)
			}
			s.do()
			return
		}
	}
}
