package sse

// Bounds of a page of history. A page is in memory while it is written, so that no
// client holds a reader of the store. A client may be slow to take it: only maxPages
// may be large at a time, and who finds none free makes do with a small one, so that
// nobody waits for somebody else's writes.
const (
	pageBytes   = 1 << 20
	smallPage   = 64 << 10
	pageEntries = 1 << 14
)

// page is a piece of history to write.
type page struct {
	text []byte
	sent int  // events in text
	room bool // the next event needs a large page, and this is not one
}

// page sends the next piece of history, up to where the ring goes on.
func (c *client) page() (why reason, more bool) {
	large := false
	select {
	case c.hub.pages <- struct{}{}:
		large = true
	default:
	}
	defer func() {
		if large {
			<-c.hub.pages
		}
	}()
	p, why, more := c.history(large)
	if more && p.room && p.sent == 0 {
		if why, more = c.acquire(c.hub.pages); !more {
			return why, false
		}
		large = true
		p, why, more = c.history(large)
	}
	if !more {
		return why, false
	}
	if err := c.write(p.text); err != nil {
		return writeFailed(err), false
	}
	c.hub.counts.replayed.Add(uint64(p.sent))
	if p.sent == 0 {
		if err := c.heartbeat(); err != nil {
			return writeFailed(err), false
		}
	}
	return "", true
}

// acquire waits for a place, and says meanwhile that the stream lives.
func (c *client) acquire(places chan<- struct{}) (why reason, more bool) {
	for {
		select {
		case <-c.hub.last:
			return c.stopped(), false
		default:
		}
		select {
		case places <- struct{}{}:
			return "", true
		case <-c.hub.last:
		case <-c.ctx.Done():
			return gone, false
		case <-c.beat.C:
			if err := c.heartbeat(); err != nil {
				return writeFailed(err), false
			}
		}
	}
}

// history reads a page.
func (c *client) history(large bool) (p page, why reason, more bool) {
	if why, more := c.acquire(c.hub.readers); !more {
		return page{}, why, false
	}
	defer func() { <-c.hub.readers }()
	limit := smallPage
	if large {
		limit = pageBytes
	}
	begin, read := c.next, 0
	for e, err := range c.hub.opts.Source.Read(c.ctx, c.next) {
		if err != nil {
			if read == 0 {
				return page{}, c.sourceFailed(), false
			}
			break // what was read counts; the next page meets the error again
		}
		if !ofEpoch(e.ID, c.ring.epoch) {
			return page{}, replaced, false
		}
		f := newFrame(&e, c.ring.epoch)
		if b := f.bytes(c.feed); b != nil && c.query.filter.passes(f) {
			if p.room = !large && len(p.text)+len(b) > 2*smallPage; p.room {
				break
			}
			p.text = append(p.text, b...)
			c.told = f.seq
			p.sent++
		}
		c.next = f.seq + 1
		read++
		if len(p.text) >= limit || read >= pageEntries || c.ring.reach(c.next) {
			break
		}
	}
	if c.next == begin && !p.room { // neither here nor there: the log was cut below us
		return page{}, c.sourceFailed(), false
	}
	return p, "", true
}
