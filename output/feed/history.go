package feed

// Bounds of a page of history. A page is held in memory while it is written, so that no
// client keeps a read of the log open. As clients may read slowly, only maxPages pages
// may be large at the same time; other clients get small pages, so that no client waits for
// the writes to another.
const (
	pageBytes   = 1 << 20  // of a large page
	smallPage   = 64 << 10 // bytes of a small page
	pageEntries = 1 << 14  // entries that are read for a page
)

// page is a part of history to write.
type page struct {
	text []byte
	sent int  // events in text
	room bool // the next event does not fit into this small page and needs a large one
}

// page sends the next page of history, which ends at the latest where the ring continues. more
// is false if the stream has to end, for the reason why.
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

// acquire waits for a slot of a semaphore, and sends heartbeats meanwhile. more is false if the
// stream has ended, for the reason why.
func (c *client) acquire(slots chan<- struct{}) (why reason, more bool) {
	for {
		select {
		case <-c.hub.last:
			return c.stopped(), false
		default:
		}
		select {
		case slots <- struct{}{}:
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

// history reads a page from the log, large or small, without writing it. more is false if the
// stream has to end, for the reason why.
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
	for e, err := range c.hub.opts.Log.Read(c.ctx, c.next) {
		if err != nil {
			if read == 0 {
				return page{}, c.sourceFailed(), false
			}
			break // what was read counts; the next page will fail with the same error
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
			c.sent = f.seq
			p.sent++
		}
		c.next = f.seq + 1
		read++
		if len(p.text) >= limit || read >= pageEntries || c.ring.reach(c.next) {
			break
		}
	}
	if c.next == begin && !p.room { // the next entry is in neither ring nor log, which was truncated meanwhile
		return page{}, c.sourceFailed(), false
	}
	return p, "", true
}
