package upstream

import (
	"context"
	"crypto/sha256"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/catalog"
)

const firstRetry = time.Second

// A poller determines when a catalog is read and when it is served. Only the goroutine of Run uses
// it.
type poller struct {
	u *Upstream

	etag string            // ETag of last
	sum  [sha256.Size]byte // digest of the body of last
	last *candidate        // most recently read catalog; nil if none yet

	replaced catalog.Digest // the catalog that was served before the current one; zero if none
	back     bool           // the last poll read it again, and ignored it

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

// poll polls the API once. After an error, the served catalog is unchanged.
func (p *poller) poll(ctx context.Context) error {
	v, err := p.u.fetchVersion(ctx)
	if err != nil {
		return err
	}
	c, err := p.fetch(ctx)
	if err != nil {
		return err
	}
	p.serve(v.build, c)
	return nil
}

// serve makes a catalog current. The catalog that was replaced last is served only if the last poll read it, too.
func (p *poller) serve(build string, c *candidate) {
	now := p.u.Catalog()
	if c.digest == p.replaced && c.digest != now.digest && !p.back {
		p.back = true
		return
	}
	p.back = false
	if c.digest != now.digest {
		p.replaced = now.digest
	}
	if c.digest != now.digest || build != now.Build {
		p.u.swap(build, c)
	}
}
