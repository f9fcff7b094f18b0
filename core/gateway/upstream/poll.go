package upstream

import (
	"context"
	"crypto/sha256"
	"maps"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
)

const (
	// verifications is the number of further polls that must confirm a new build: behind a load
	// balancer, both version responses may come from one backend, and the catalog read in between
	// from another.
	verifications = 2
	// flapWindow is how long previous builds are remembered, as a number of poll intervals.
	flapWindow = 20
	// agreement is the number of further responses, at most half a second apart, that must agree
	// before the poller accepts a build that was replaced earlier, or that contradicts other
	// responses.
	agreement = 4
	// maxDoubt is the maximum number of additional polls that must agree before an old build is
	// accepted again. One poll is added for each time that an old build returned within flapWindow.
	maxDoubt = 3
	// maxNoise is the number of consecutive polls with contradictory responses and unknown builds
	// after which builds are considered meaningless (for example, a time or a counter). For the
	// following flapWindow, catalogs are compared instead of builds.
	maxNoise = 3
	// maxRemembered is the maximum number of previous builds and of previous catalogs that are
	// remembered.
	maxRemembered = 32
	firstRetry    = time.Second
)

// A poller determines when a catalog is read and when it is served. Only the goroutine of Run uses
// it.
//
// A key identifies a state of the API: its build, or the digest of its catalog if the API does not
// report a build.
type poller struct {
	u *Upstream

	etag string            // ETag of last
	sum  [sha256.Size]byte // digest of the body of last
	last *candidate        // most recently read catalog; nil if none yet

	seen   string                       // current key; empty before the first catalog
	left   map[string]time.Time         // previous keys, and when each was last seen
	met    map[string]time.Time         // keys in contradictory responses, and when each was last seen
	served map[catalog.Digest]time.Time // previous catalogs, and when each was replaced
	now    catalog.Digest               // digest of the current catalog; zero before the first
	verify int                          // number of polls that must still confirm seen
	mixed  bool                         // the last responses contradicted each other
	turns  []time.Time                  // when a previous key returned, or would have returned
	claim  string                       // key in the first response of the last poll
	claims int                          // number of consecutive polls with that key
	noise  int                          // number of consecutive polls with contradictory responses and unknown keys
	ignore time.Time                    // builds are ignored until this time; zero if they are used

	retry *backoff.Backoff // delays after failures before the first catalog
}

func newPoller(u *Upstream) *poller {
	return &poller{u: u, left: map[string]time.Time{}, met: map[string]time.Time{},
		served: map[catalog.Digest]time.Time{}, retry: backoff.New(firstRetry, u.opts.Interval)}
}

// wait returns the delay until the next poll. err is the error of the last poll.
func (p *poller) wait(err error) time.Duration {
	if err != nil && p.now.IsZero() {
		return p.retry.Next()
	}
	return backoff.Spread(p.u.opts.Interval)
}

// observed is the state of the API that one response shows.
type observed struct {
	key, build string
	catalog    *candidate // parsed catalog; nil if the key is a build
}

func (p *poller) observe(ctx context.Context) (observed, error) {
	v, err := p.u.fetchVersion(ctx)
	if err != nil {
		return observed{}, err
	}
	if v.build != "" && time.Now().After(p.ignore) {
		return observed{key: "build " + v.build, build: v.build}, nil
	}
	c, err := p.fetch(ctx)
	if err != nil {
		return observed{}, err
	}
	return observed{key: c.digest.String(), build: v.build, catalog: c}, nil
}

// poll polls the API once. If the catalog is new and confirmed, poll serves it. After an error, the
// served catalog is unchanged, and the next poll retries.
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
		p.turns[len(p.turns)-1] = time.Now() // the builds are still alternating
		p.meet(o.key)
		return nil
	}
	further := 0
	switch {
	case p.mixed || old:
		further = agreement
	case o.key == p.seen:
		// Each confirming poll sends another number of requests. Otherwise a load balancer that uses its
		// backends in turn could pass every request for the catalog to the same old backend.
		further = verifications - p.verify + 1
	}
	if agreed, err := p.agreed(ctx, o.key, further); !agreed {
		return err
	}
	if o.catalog != nil {
		p.adopt(o, o.catalog)
		return nil
	}
	c, err := p.fetch(ctx)
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
	// The API was deployed during the poll, or two builds are running in parallel, so the next poll
	// requires agreement. The catalog belongs to one of the builds, so it can be served if it is
	// new.
	p.disagree(o.key, after.key)
	if _, old := p.served[c.digest]; !old {
		p.serve(o.build, c)
	}
	return nil
}

// agreed sends further requests to the API and reports whether all responses have the key.
func (p *poller) agreed(ctx context.Context, key string, requests int) (bool, error) {
	for range requests {
		if !backoff.Sleep(ctx, min(500*time.Millisecond, p.u.opts.Interval/10)) {
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

// disagree records that the responses in one poll had different keys.
func (p *poller) disagree(keys ...string) {
	p.mixed = true
	unknown := false
	for _, key := range keys {
		_, left := p.left[key]
		_, met := p.met[key]
		unknown = unknown || key != p.seen && !left && !met
		if met || len(p.met) < maxRemembered {
			p.met[key] = time.Now()
		}
	}
	if !unknown {
		p.noise = 0
		return
	}
	if p.noise++; p.noise == maxNoise {
		p.noise, p.mixed = 0, false
		p.ignore = time.Now().Add(flapWindow * p.u.opts.Interval)
	}
}

// adopt makes the observed state, with its catalog c, the current state, or confirms the current
// state.
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
		p.verify = 0 // without a build, every poll reads the catalog
	}
	p.mixed, p.noise = false, 0
	p.serve(o.build, c)
}

// meet records that a key was seen now, unless it is the current key.
func (p *poller) meet(key string) {
	if key != "" && key != p.seen && (len(p.left) < maxRemembered || !p.left[key].IsZero()) {
		p.left[key] = time.Now()
	}
}

// serve makes a catalog current, unless it is already current with the same build.
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

// forget removes all keys, catalogs and turns that are older than flapWindow.
func (p *poller) forget() {
	horizon := time.Now().Add(-flapWindow * p.u.opts.Interval)
	maps.DeleteFunc(p.left, func(_ string, at time.Time) bool { return at.Before(horizon) })
	maps.DeleteFunc(p.met, func(_ string, at time.Time) bool { return at.Before(horizon) })
	maps.DeleteFunc(p.served, func(_ catalog.Digest, at time.Time) bool { return at.Before(horizon) })
	if n := len(p.turns); n > 0 && p.turns[n-1].Before(horizon) {
		p.turns = nil
	}
}
