package tracker

import (
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
)

// followedURIs are the resources to follow, given the server's list: those of the
// list that the entry includes and does not exclude, and those that it includes
// by their full URI, listed or not (resources of a template are in no list).
func followedURIs(srv *config.Server, resources catalog.List) []string {
	if !srv.TrackResources {
		return nil
	}
	var uris []string
	for _, it := range resources {
		if follows(srv, it.Key) {
			uris = append(uris, it.Key)
		}
	}
	for _, uri := range srv.Include {
		if _, listed := resources.Get(uri); !listed && !isGlob(uri) && follows(srv, uri) {
			uris = append(uris, uri)
		}
	}
	slices.Sort(uris)
	return slices.Compact(uris)
}

// follows reports whether the entry selects the URI.
func follows(srv *config.Server, uri string) bool { return srv.TrackResources && srv.Selects(uri) }

func isGlob(s string) bool { return strings.ContainsAny(s, "*[{") }
