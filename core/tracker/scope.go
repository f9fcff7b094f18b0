package tracker

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// scope determines what to track on a server: what its entry selects and the server offers.
type scope struct {
	srv        config.Server
	opts       *Options
	info       session.Info
	unreliable bool // the server failed to push updates that it claims to push
}

// wants reports whether lists of the kind should be tracked.
func (s scope) wants(k catalog.Kind) bool {
	switch {
	case s.opts.AllLists:
		return true
	case k == catalog.Tools:
		return s.srv.TrackTools
	case k == catalog.Prompts:
		return s.srv.TrackPrompts
	default:
		return s.srv.TrackResources
	}
}

// ignores reports whether announced changes of the list are ignored.
func (s scope) ignores(k catalog.Kind) bool {
	if k == catalog.Templates {
		k = catalog.Resources
	}
	return slices.Contains(s.opts.IgnoreListChanges, k)
}

// kinds returns the lists that are wanted and that the server offers.
func (s scope) kinds() []catalog.Kind {
	var kinds []catalog.Kind
	for _, k := range catalog.Kinds() {
		if s.wants(k) && s.info.Capabilities.Has(k) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// kindsOf returns k, and the templates if k is resources, without those that are not wanted or
// that the server does not offer.
func (s scope) kindsOf(k catalog.Kind) []catalog.Kind {
	return slices.DeleteFunc(s.kinds(), func(o catalog.Kind) bool {
		return o != k && !(k == catalog.Resources && o == catalog.Templates)
	})
}

// filter returns what to ask the server to push, as far as it declares that it can.
func (s scope) filter(uris []string) session.Filter {
	caps := s.info.Capabilities
	follow := func(k catalog.Kind, announced bool) bool { return announced && s.wants(k) && !s.ignores(k) }
	want := session.Filter{
		Tools:     follow(catalog.Tools, caps.ToolsListChanged),
		Prompts:   follow(catalog.Prompts, caps.PromptsListChanged),
		Resources: follow(catalog.Resources, caps.ResourcesListChanged),
		Events:    caps.EventsListChanged && !s.srv.Events.Off,
	}
	if s.subscribes() {
		want.URIs = uris
	}
	return want
}

// subscribes reports whether resources are subscribed to.
func (s scope) subscribes() bool {
	return s.info.Capabilities.ResourcesSubscribe && s.srv.Mode != config.ModePoll
}

// pushes reports whether the server may be relied on to push updates of resources that are
// subscribed to.
func (s scope) pushes() bool { return s.subscribes() && s.info.Push && !s.unreliable }

// resources returns the URIs to track, sorted, given the server's list and the additional
// subscriptions of clients. They are the listed ones that the entry includes and does not
// exclude, and those that it includes by their full URI, listed or not (resources of a template
// are not listed).
func (s scope) resources(list catalog.List, clients []string) []string {
	uris := slices.Clone(clients)
	for _, it := range list {
		if s.selects(it.Key) {
			uris = append(uris, it.Key)
		}
	}
	for _, uri := range s.srv.Include {
		if _, listed := list.Get(uri); !listed && !isGlob(uri) && s.selects(uri) {
			uris = append(uris, uri)
		}
	}
	slices.Sort(uris)
	return slices.Compact(uris)
}

// targets returns the URIs of resources, with the descriptors of those that are listed. It is
// empty for a server without resources, even if an earlier session had some.
func (s scope) targets(list catalog.List, clients []string) map[string]event.Descriptor {
	uris := s.offered(list, clients)
	targets := make(map[string]event.Descriptor, len(uris))
	for _, uri := range uris {
		var desc event.Descriptor
		if it, ok := list.Get(uri); ok {
			d := it.Describe()
			desc = event.Descriptor{Name: d.Name, MimeType: d.MimeType}
		}
		targets[uri] = desc
	}
	return targets
}

// offered returns the URIs of targets, sorted.
func (s scope) offered(list catalog.List, clients []string) []string {
	if !s.info.Capabilities.Resources {
		return nil
	}
	return s.resources(list, clients)
}

// contains reports whether sorted URIs have one.
func contains(sorted []string, uri string) bool {
	_, ok := slices.BinarySearch(sorted, uri)
	return ok
}

// selects reports whether the entry selects the resource.
func (s scope) selects(uri string) bool { return s.srv.TrackResources && s.srv.Selects(uri) }

// polledLists returns the wanted lists whose changes the server does not announce. missing are
// those that it was asked to announce but does not.
func (s scope) polledLists(missing []catalog.Kind) []catalog.Kind {
	caps := s.info.Capabilities
	announced := map[catalog.Kind]bool{
		catalog.Resources: caps.ResourcesListChanged,
		catalog.Templates: caps.ResourcesListChanged,
		catalog.Tools:     caps.ToolsListChanged,
		catalog.Prompts:   caps.PromptsListChanged,
	}
	var kinds []catalog.Kind
	for _, k := range s.kinds() {
		if !s.ignores(k) && (!announced[k] || !s.info.Push || slices.Contains(missing, k)) {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

func isGlob(s string) bool { return strings.ContainsAny(s, "*[{") }

// setOf returns the URIs as a set.
func setOf(uris []string) map[string]struct{} {
	set := make(map[string]struct{}, len(uris))
	for _, u := range uris {
		set[u] = struct{}{}
	}
	return set
}

func has[V any](m map[string]V, key string) bool {
	_, ok := m[key]
	return ok
}

// sameSet reports whether the URIs, which are distinct, are those of the set.
func sameSet(uris []string, set map[string]struct{}) bool {
	return len(uris) == len(set) && !slices.ContainsFunc(uris, func(u string) bool { return !has(set, u) })
}

// sortedKeys returns the keys of a map, sorted.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
