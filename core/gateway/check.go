package gateway

import (
	"slices"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
)

// checked is the result of checking the items of a list.
type checked struct {
	list    []catalog.Item // the list that was checked
	pins    int            // the version of the server's pins with which it was
	items   []item         // those that can be listed
	refused []Refusal      // those that cannot, or are suspicious
}

// check checks the items of a server's list. The result is reused until the list changes.
func (l *loop) check(server string, k catalog.Kind, list []catalog.Item) checked {
	return l.checkAs(server, server, k, list)
}

// checkAs is check with the id under which l.checked has the last result: that of the
// server, or of one of its variants (see variants.merge).
func (l *loop) checkAs(id, server string, k catalog.Kind, list []catalog.Item) checked {
	was := l.checked[id][k]
	pins := l.pins(server, k)
	if len(was.list) == len(list) && (len(list) == 0 || &was.list[0] == &list[0]) && was.pins == pins.current() {
		return was // lists are immutable
	}
	c := checked{list: list, items: make([]item, 0, len(list))}
	refuse := func(key string, err error) {
		c.refused = append(c.refused, Refusal{Server: server, Kind: k, Key: key, Reason: err.Error()})
	}
	known := make(map[string]item, len(was.items))
	for _, it := range was.items {
		known[it.key] = it
	}
	for _, it := range list {
		// An item that differs only in the order of its members keeps its former bytes:
		// clients cache prompts by the bytes of lists.
		checked, again := known[it.Key]
		var err error
		if !again || checked.digest != it.Digest {
			checked, err = newItem(k, it)
		}
		if err != nil {
			refuse(it.Key, err)
		} else {
			c.items = append(c.items, checked)
		}
	}
	if pins != nil {
		pins.pin(l.ctx, c.items, l.g.opts.Logger)
		c.pins = pins.version
		c.items = slices.DeleteFunc(c.items, func(it item) bool {
			err := pins.refuse(it)
			if err != nil {
				refuse(it.key, err)
			}
			return err != nil
		})
	}
	for _, it := range c.items {
		if it.suspicion != "" {
			c.refused = append(c.refused, Refusal{Server: server, Kind: k, Key: it.key, Reason: it.suspicion, Listed: true})
		}
	}
	return c
}

// pins returns the pins of a server's list, nil if there are none.
func (l *loop) pins(server string, k catalog.Kind) *pinned {
	if l.g.opts.Pins == nil || k != catalog.Tools {
		return nil
	}
	return l.g.opts.Pins.of(server)
}

// Refusal is an item of a server that is not listed, or that is suspicious.
type Refusal struct {
	Server string
	Kind   catalog.Kind
	Key    string // the server's name or URI of the item; not sanitized
	Reason string // one line for users
	Listed bool   // the item is listed, but suspicious
}

// maxLogged is how many new refusals of one merge are logged individually.
const maxLogged = 20

// report logs the refusals that are new and passes them to Options.Refused.
func (l *loop) report(refused map[Refusal]struct{}) {
	logged := 0
	for r := range refused {
		if _, known := l.refused[r]; known {
			continue
		}
		if l.g.opts.Refused != nil {
			l.g.opts.Refused(r)
		}
		if logged++; logged > maxLogged {
			continue
		}
		what := "the gateway does not list an item of a server"
		if r.Listed {
			what = "an item of a server looks suspicious"
		}
		l.g.opts.Logger.Warn(what, "server", printable.Line(r.Server, 128), "list", string(r.Kind),
			"item", printable.Line(r.Key, 200), "reason", r.Reason)
	}
	if logged > maxLogged {
		l.g.opts.Logger.Warn("more items of the server are not listed or look suspicious", "number", logged-maxLogged)
	}
	l.refused = refused
}
