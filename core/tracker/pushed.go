package tracker

import (
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
)

// adoptAck notes what the server agreed to push, and reports whether it pushes from
// here on what was polled so far: what changed since the last poll was announced to
// nobody.
func (f *follower) adoptAck(a syncAnswer) (again bool) {
	was, info := f.mode, f.s.Info()
	f.followed = setOf(a.asked.URIs)
	f.unpushed = a.ack.MissingLists
	f.mode, f.missing = event.Push, setOf(a.ack.MissingURIs)
	if a.subscribe != nil || !info.Push || !info.Capabilities.ResourcesSubscribe {
		f.mode, f.missing = event.Poll, map[string]struct{}{}
	}
	return was == event.Poll && f.mode == event.Push
}

// pushes tells of which resources the server pushes updates now; the answer stays as
// it is when that changes.
func (f *follower) pushes() func(uri string) bool {
	mode, followed, missing := f.mode, f.followed, f.missing
	return func(uri string) bool {
		_, asked := followed[uri]
		_, refused := missing[uri]
		return mode == event.Push && asked && !refused
	}
}

// noticed is how changes of resources are noticed: what is not pushed is not if
// nothing is read.
func (f *follower) noticed() event.Mode {
	if f.mode == event.Poll && f.w.srv.Read == config.ReadNone {
		return ""
	}
	return f.mode
}
