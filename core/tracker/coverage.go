package tracker

import (
	"fmt"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/printable"
)

// coverage says which changes the server pushes. It is a value: update replaces its maps, so a
// copy preserves the earlier state.
type coverage struct {
	mode    event.Mode
	asked   map[string]struct{} // resources that the server was asked to push
	missing map[string]struct{} // those of asked that the server does not push
	lists   []catalog.Kind      // lists whose changes the server was asked to push, but does not
}

// update records what the server agreed to push, if the sync that returned r subscribed.
// Without such an agreement all resources are polled.
func (c *coverage) update(r syncResult, sc scope) {
	if !r.made {
		return
	}
	c.asked, c.lists = setOf(r.asked.URIs), r.ack.MissingLists
	c.mode, c.missing = event.Push, setOf(r.ack.MissingURIs)
	if r.subscribe != nil || !sc.pushes() {
		c.mode, c.missing = event.Poll, nil
	}
}

// poll marks all resources as polled until the next subscription.
func (c *coverage) poll() { c.mode, c.missing = event.Poll, nil }

// partial reports whether the server pushes less than it should: what it did not agree to may
// have failed for the moment only.
func (c *coverage) partial(sc scope) bool {
	return sc.pushes() && len(c.asked) > 0 && (c.mode != event.Push || len(c.missing) > 0)
}

// pushes reports whether the server pushes updates of the resource.
func (c *coverage) pushes(uri string) bool {
	return c.mode == event.Push && has(c.asked, uri) && !has(c.missing, uri)
}

// safetyInterval returns the interval of the safety reads; zero: there are none, because
// resources are polled or the config says so.
func (c *coverage) safetyInterval(srv config.Server) time.Duration {
	if c.mode != event.Push {
		return 0
	}
	return srv.SafetyInterval
}

// warn logs the first few things that the server was asked to push and does not.
func (c *coverage) warn(pub *publisher, read config.ReadMode) {
	uris := sortedKeys(c.missing)
	if len(uris)+len(c.lists) == 0 {
		return
	}
	msg := "the server does not push some changes; polling for them"
	if len(uris) > 0 && read == config.ReadNone {
		msg = `the server does not push some changes, and with "read": "none" changes of resources are not detected; set "read": "digest"`
	}
	pub.warnOnce("missing", msg, nil,
		"resources", len(uris), "uris", printable.Line(strings.Join(uris[:min(len(uris), 10)], " "), 1000),
		"lists", fmt.Sprint(c.lists))
}
