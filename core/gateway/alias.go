package gateway

import (
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/printable"
)

// aliases returns the id under which clients know a server, given its id in the tracker; see
// [Options.Alias]. If it is nil, the ids are the same.
type aliases func(id string) string

// of returns the exported id of a server. The gateway's own items have the empty id.
func (a aliases) of(id string) string {
	if a == nil || id == "" {
		return id
	}
	return a(id)
}

// line returns the exported id as one printable line.
func (a aliases) line(id string) string { return printable.Line(a.of(id), 128) }

// qualify returns the qualified URI of a resource or template of a server.
func (a aliases) qualify(t target) string { return qualify(a.of(t.server), t.key) }

func (a aliases) compare(x, y string) int { return strings.Compare(a.of(x), a.of(y)) }

func (a aliases) all(ids []string) []string {
	out := slices.Clone(ids)
	for i, id := range out {
		out[i] = a.of(id)
	}
	return out
}

func (b *base) alias() aliases { return b.opts.Alias }

// internal returns the id in the tracker of the enabled server with an exported id, or the exported
// id if there is none.
func (b *base) internal(exported string) string {
	for _, srv := range b.servers() {
		if b.alias().of(srv.ID) == exported {
			return srv.ID
		}
	}
	return exported
}
