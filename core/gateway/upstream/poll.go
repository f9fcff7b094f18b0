package upstream

import (
	"context"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
)

const (
	// settling is the number of polls that read the catalog after the build was last another: behind
	// a load balancer, the build and the catalog of one poll may come from different backends.
	settling = 10
	// rereading is the number of polls after which the catalog of the same build is read again.
	rereading = 20
	// maxReplaced is the maximum number of replaced catalogs that are remembered.
	maxReplaced = 16
	firstRetry  = time.Second
)

// A poller determines when a catalog is read and when it is served. Only the goroutine of Run uses
// it.
type poller struct {
	u *Upstream

	etag string            // ETag of last
	sum  [sha256.Size]byte // digest of the body of last
	last *candidate        // most recently read catalog; nil if none yet

	build string // build in the last version response; empty if the API does not report one
	same  int    // number of successful polls since the build was another

	replaced []catalog.Digest // previous catalogs, newest last
	back     catalog.Digest   // replaced catalog that the last poll read, and ignored; zero if none

	retry *backoff.Backoff // delays after failures before the first catalog
}

func newPoller(u *Upstream) *poller {
	return &poller{u: u, retry: backoff.New(firstRetry, u.opts.Interval)}
}

// wait returns the delay until the next poll. err is the error of the last poll.
func (p *poller) wait(err error) time.Duration {
	if err != nil && p.u.Catalog().digest.IsZero() {
		return p.retry.Next()
	}
	return backoff.Spread(p.u.opts.Interval)
}

// poll polls the API once. After an error, the served catalog is unchanged, and the next poll reads
// what this one did not.
func (p *poller) poll(ctx context.Context) error {
	if err := p.ask(ctx); err != nil {
		return err
	}
	if p.build == "" || p.same < settling || p.same%rereading == 0 {
		c, err := p.fetch(ctx)
		if err != nil {
			return err
		}
		// With a third request, a load balancer that uses two backends in turn cannot pass every
		// request for the version to one of them and every request for the catalog to the other.
		if err := p.ask(ctx); err != nil {
			return err
		}
		p.serve(c)
	}
	p.same++
	return nil
}

// ask reads the API's build.
func (p *poller) ask(ctx context.Context) error {
	v, err := p.u.fetchVersion(ctx)
	if err == nil && v.build != p.build {
		p.build, p.same = v.build, 0
	}
	return err
}

// serve makes a catalog current. A catalog that was replaced before is served only if the last poll
// read it, too.
func (p *poller) serve(c *candidate) {
	now := p.u.Catalog()
	if c.digest != now.digest && c.digest != p.back && slices.Contains(p.replaced, c.digest) {
		p.back = c.digest
		return
	}
	p.back = catalog.Digest{}
	if c.digest != now.digest && !now.digest.IsZero() {
		p.replaced = append(p.replaced[max(0, len(p.replaced)+1-maxReplaced):], now.digest)
	}
	if c.digest != now.digest || p.build != now.Build {
		p.u.swap(p.build, c)
	}
}
