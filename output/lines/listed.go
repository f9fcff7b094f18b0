package lines

import (
	"slices"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
)

// A change of the list of resources is one event, and each change of a followed resource in the
// list is another. People see each change once: the line about the list covers the events about
// its resources that follow, and leaves out removals that already had a line.

// listing is a change of one resource in the list of a server: added, changed or removed.
type listing struct{ server, uri, sign string }

// maxListed bounds the listings that are remembered. If one was forgotten, its event gets an
// additional line.
const maxListed = 1000

// repeats reports whether a line has already shown the change that the event is about.
func (w *Writer) repeats(e *event.Event) bool {
	if w.Wide || w.Verbose {
		return false
	}
	l := listing{server: e.ServerID, uri: e.ResourceURI}
	switch p := e.Payload.(type) {
	case event.ResourceAdded:
		l.sign = "+"
	case event.ResourceRemoved:
		l.sign = "-"
	case event.ResourceChanged:
		l.sign = "~"
	case event.ListChanged:
		if p.List != catalog.Resources || p.Error != "" || !w.rest(e.ServerID, p).Empty() {
			return false
		}
		w.forgetRemoved(e.ServerID, p)
		return true
	default:
		return false
	}
	if w.listed[l] {
		delete(w.listed, l)
		return true
	}
	if l.sign == "-" {
		w.removed = remember(w.removed, l)
	} else {
		delete(w.removed, listing{l.server, l.uri, "-"})
	}
	return false
}

// rest returns the change of a list of resources without the removals that already had a line.
func (w *Writer) rest(server string, p event.ListChanged) catalog.Delta {
	return catalog.Delta{Added: p.Added, Changed: p.Changed, Removed: slices.DeleteFunc(slices.Clone(p.Removed), func(uri string) bool {
		return w.removed[listing{server, uri, "-"}]
	})}
}

func (w *Writer) forgetRemoved(server string, p event.ListChanged) {
	for _, uri := range p.Removed {
		delete(w.removed, listing{server, uri, "-"})
	}
}

// list formats the change of a list of resources. It records the resources that the line
// names, so that their own events, which follow, get no second line. The line already has used
// columns.
func (w *Writer) list(e *event.Event, p event.ListChanged, used int) string {
	d := w.rest(e.ServerID, p)
	w.forgetRemoved(e.ServerID, p)
	for sign, uris := range map[string][]string{"+": d.Added, "-": d.Removed, "~": d.Changed} {
		for _, uri := range uris[:min(len(uris), maxNames)] {
			w.listed = remember(w.listed, listing{e.ServerID, uri, sign})
		}
	}
	switch one := len(d.Added)+len(d.Removed)+len(d.Changed) == 1; {
	case one && len(d.Added) == 1:
		return w.change(green, "added", &event.Event{ResourceURI: d.Added[0]}, nil, used)
	case one && len(d.Removed) == 1:
		return w.change(red, "removed", &event.Event{ResourceURI: d.Removed[0]}, nil, used)
	}
	p.Removed = d.Removed
	return w.word(cyan, string(p.List)) + "  " + w.listChange(p)
}

func remember(all map[listing]bool, l listing) map[listing]bool {
	if all == nil || len(all) >= maxListed {
		all = map[listing]bool{}
	}
	all[l] = true
	return all
}
