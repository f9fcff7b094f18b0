package tracker

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing/synctest"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// chaos does random things to the server "docs" and to its entry in the config.
// It is a server that keeps the rules: every change that is made while clients are
// connected is announced.
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
	exist   map[string]bool // whether a resource that ever was is there
	tools   []string
	exclude []string
	noTools bool
	restart int // changes of the arguments
	anew    []anew
}

// anew is a resource, or all for "", that a consumer has to get to know again
// after an event, because it was not followed for a while.
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

// put changes a resource and announces it: the list if it is new to it, and the
// update to those who were subscribed before it went.
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

// away lets the server be out of reach for a while, in which things change.
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

// configure applies the entry as chaos wants it now.
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

// listens are the things that only happen to modern servers.
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

// configSteps change what is wanted.
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

// step does one thing.
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
