package upstream

import (
	"context"
	"maps"
	"math/rand/v2"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
)

const (
	// A new build is looked at again at so many polls: behind a balancer, both
	// answers about the version may have come from one backend and the catalog
	// between them from another.
	verifications = 2
	// So many intervals long, what was left is remembered.
	flapWindow = 20
	// An old build, or one of several, is believed after so many more answers that
	// agree, half a second apart.
	agreement = 4
	// Each old build that came back within the window makes the next one wait for
	// another poll that agrees, up to so many.
	maxDoubt = 3
	// After so many polls in a row whose answers disagree and tell builds never met
	// before, the build says nothing (it may be a time or a counter), and for the
	// window the catalog is compared instead.
	maxNoise = 3
	// maxRemembered bounds the builds and catalogs that are remembered.
	maxRemembered = 32
	firstRetry    = time.Second
)

// A poller decides when a catalog is read and when it is served. It belongs to the
// goroutine of Run.
//
// A state of the API is known by a key: its build, or the digest of its catalog
// where it tells no build.
type poller struct {
	u       *Upstream
	fetcher fetcher

	seen   string                       // the key of what is served; "" before the first
	left   map[string]time.Time         // keys that were seen before this one, when last met
	met    map[string]time.Time         // keys that disagreed with others, when last met
	served map[catalog.Digest]time.Time // catalogs that were served before this one, till when
	now    catalog.Digest               // the catalog that is served; zero before the first
	verify int                          // polls at which seen is still to be confirmed
	mixed  bool                         // the last answers did not agree
	turns  []time.Time                  // when something old came back, or would have
	claim  string                       // the key that the last poll began with
	claims int                          // how many polls did so in a row
	noise  int                          // polls in a row with disagreement of unknown keys
	ignore time.Time                    // until then builds say nothing

	retry time.Duration // before the first catalog
}

func newPoller(u *Upstream) *poller {
	return &poller{u: u, fetcher: fetcher{u: u}, left: map[string]time.Time{}, met: map[string]time.Time{},
		served: map[catalog.Digest]time.Time{}, retry: firstRetry}
}

// wait is the time until the next poll.
func (p *poller) wait(err error) time.Duration {
	interval := p.u.opts.Interval
	if err != nil && p.now.IsZero() && p.retry < interval {
		interval = p.retry
		p.retry *= 2
	}
	return interval - interval/10 + rand.N(interval/5+1)
}

// observed is one answer of the API about its state.
type observed struct {
	key, build string
	catalog    *candidate // where the state is known by it
}

func (p *poller) observe(ctx context.Context) (observed, error) {
	v, err := p.u.fetchVersion(ctx)
	if err != nil {
		return observed{}, err
	}
	if v.build != "" && time.Now().After(p.ignore) {
		return observed{key: "build " + v.build, build: v.build}, nil
	}
	c, err := p.fetcher.fetch(ctx)
	if err != nil {
		return observed{}, err
	}
	return observed{key: c.digest.String(), build: v.build, catalog: c}, nil
}

// poll asks once. An error leaves everything as it was, so that the next poll
// tries the same again.
func (p *poller) poll(ctx context.Context) error {
	p.forget()
	o, err := p.observe(ctx)
	if err != nil {
		return err
	}
	if o.key != p.claim {
		p.claim, p.claims = o.key, 0
	}
	p.claims++
	if o.key == p.seen && p.verify == 0 && !p.mixed {
		return nil
	}
	_, old := p.left[o.key]
	if doubt := min(len(p.turns), maxDoubt); old && p.claims <= doubt {
		p.turns[len(p.turns)-1] = time.Now() // still going on
		p.meet(o.key)
		return nil
	}
	if p.mixed || old {
		if agreed, err := p.agreed(ctx, o.key); !agreed {
			return err
		}
	}
	if o.catalog != nil {
		p.adopt(o, o.catalog)
		return nil
	}
	c, err := p.fetcher.fetch(ctx)
	if err != nil {
		return err
	}
	after, err := p.observe(ctx)
	if err != nil {
		return err
	}
	if after.key == o.key {
		p.adopt(o, c)
		return nil
	}
	// Deployed in between, or two builds side by side: the next poll looks closely.
	// Either way this catalog is one of theirs, and if it is a new one there is no
	// reason to hide it.
	p.disagree(o.key, after.key)
	if _, old := p.served[c.digest]; !old {
		p.serve(o.build, c)
	}
	return nil
}

// agreed reports whether several more answers tell the same key.
func (p *poller) agreed(ctx context.Context, key string) (bool, error) {
	for range agreement {
		if !sleep(ctx, min(500*time.Millisecond, p.u.opts.Interval/10)) {
			return false, context.Cause(ctx)
		}
		o, err := p.observe(ctx)
		if err != nil {
			return false, err
		}
		if o.key != key {
			p.disagree(key, o.key)
			return false, nil
		}
	}
	return true, nil
}

// disagree notes that answers told several keys.
func (p *poller) disagree(keys ...string) {
	p.mixed = true
	strange := false
	for _, key := range keys {
		_, left := p.left[key]
		_, met := p.met[key]
		strange = strange || key != p.seen && !left && !met
		if met || len(p.met) < maxRemembered {
			p.met[key] = time.Now()
		}
	}
	if !strange {
		p.noise = 0
		return
	}
	if p.noise++; p.noise == maxNoise {
		p.noise, p.mixed = 0, false
		p.ignore = time.Now().Add(flapWindow * p.u.opts.Interval)
	}
}

// adopt takes a state for the present one.
func (p *poller) adopt(o observed, c *candidate) {
	switch _, old := p.left[o.key]; {
	case o.key != p.seen:
		if old {
			p.turns = append(p.turns[max(0, len(p.turns)-maxDoubt):], time.Now())
		}
		before := p.seen
		p.seen, p.verify = o.key, verifications
		p.meet(before)
		delete(p.left, o.key)
	case p.mixed:
		p.verify = verifications
	default:
		p.verify = max(0, p.verify-1)
	}
	if o.catalog != nil {
		p.verify = 0 // every poll looks at the catalog
	}
	p.mixed, p.noise = false, 0
	p.serve(o.build, c)
}

// meet remembers a key that was the present one before.
func (p *poller) meet(key string) {
	if key != "" && key != p.seen && (len(p.left) < maxRemembered || !p.left[key].IsZero()) {
		p.left[key] = time.Now()
	}
}

// serve swaps a catalog in, if it is not served already.
func (p *poller) serve(build string, c *candidate) {
	if c.digest == p.now && p.u.Catalog().Build == build {
		return
	}
	if !p.now.IsZero() && c.digest != p.now && len(p.served) < maxRemembered {
		p.served[p.now] = time.Now()
	}
	delete(p.served, c.digest)
	p.now = c.digest
	p.u.swap(build, c)
}

// forget drops what was left longer ago than the window.
func (p *poller) forget() {
	horizon := time.Now().Add(-flapWindow * p.u.opts.Interval)
	maps.DeleteFunc(p.left, func(_ string, at time.Time) bool { return at.Before(horizon) })
	maps.DeleteFunc(p.met, func(_ string, at time.Time) bool { return at.Before(horizon) })
	maps.DeleteFunc(p.served, func(_ catalog.Digest, at time.Time) bool { return at.Before(horizon) })
	if n := len(p.turns); n > 0 && p.turns[n-1].Before(horizon) {
		p.turns = nil
	}
}
