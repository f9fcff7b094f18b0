package sse

// Bounds of a page of history. A page is in memory while it is written, so that no
// client holds a reader of the store; few enough are at once (maxPages).
const (
	pageBytes   = 1 << 20
	pageEntries = 1 << 14
)

// page sends the next piece of history, up to where the ring goes on.
func (c *client) page() (why reason, more bool) {
	for waiting := true; waiting; {
		select {
		case c.hub.pages <- struct{}{}:
			waiting = false
		case <-c.hub.last:
			return c.stopped(), false
		case <-c.ctx.Done():
			return gone, false
		case <-c.beat.C:
			if err := c.heartbeat(); err != nil {
				return writeFailed(err), false
			}
		}
	}
	defer func() { <-c.hub.pages }()
	select {
	case <-c.hub.last:
		return c.stopped(), false
	default:
	}
	var text []byte
	begin, read, sent := c.next, 0, 0
	for e, err := range c.hub.opts.Source.Read(c.ctx, c.next) {
		if err != nil {
			if read == 0 {
				return c.sourceFailed(), false
			}
			break // what was read counts; the next page meets the error again
		}
		if !ofEpoch(e.ID, c.ring.epoch) {
			return replaced, false
		}
		f := newFrame(&e, c.ring.epoch)
		c.next = f.seq + 1
		read++
		if b := f.bytes(c.feed); b != nil && c.query.filter.passes(f) {
			text = append(text, b...)
			c.told = f.seq
			sent++
		}
		if len(text) >= pageBytes || read >= pageEntries || c.ring.reach(c.next) {
			break
		}
	}
	if c.next == begin { // neither here nor there: the log was cut below us
		return c.sourceFailed(), false
	}
	if err := c.write(text); err != nil {
		return writeFailed(err), false
	}
	c.hub.counts.replayed.Add(uint64(sent))
	if sent == 0 {
		if err := c.heartbeat(); err != nil {
			return writeFailed(err), false
		}
	}
	return "", true
}
