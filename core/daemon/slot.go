package daemon

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/mcptrack/mcptrack/core/config"
)

// A slot is one client's place in a group with servers that are not shared. A client takes the first slot
// that nobody has and whose servers sleep, so that the next session finds the lists of an earlier one, but
// never its process. A client that connects again gets its slot back unless another client has it.
type slot struct {
	// Guarded by Daemon.mu:
	client  string   // that has the slot, or had it last
	users   int      // connections of that client
	servers []string // ids in the tracker of the servers that are not shared
}

// maxSlots limits how many groups' slots are remembered while nobody has one.
const maxSlots = 1000

// owner is what stands for the client in what is not shared: its slot, or its name if it has none.
func (c client) owner() string { return cmp.Or(c.slot, c.Client) }

// takeSlot gives a client a slot until leave is called, unless all servers of the config are shared. taken must be
// called when the client's group is known.
func (d *Daemon) takeSlot(who client, source Source) (_ client, taken func(*Group), leave func()) {
	if !slices.ContainsFunc(source.Config.Servers, func(s config.Server) bool { return s.Unshared() }) {
		return who, func(*Group) {}, func() {}
	}
	client := who.Client
	who.Client = ""
	row := who.groupKey(source)
	who.Client = client
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.slots) >= maxSlots && d.slots[row] == nil {
		maps.DeleteFunc(d.slots, func(_ string, row []*slot) bool {
			return !slices.ContainsFunc(row, func(s *slot) bool { return s.users > 0 })
		})
	}
	i := slices.IndexFunc(d.slots[row], func(s *slot) bool { return s.client == client })
	if i < 0 {
		i = slices.IndexFunc(d.slots[row], func(s *slot) bool { return s.users == 0 && !slices.ContainsFunc(s.servers, d.awake) })
	}
	if i < 0 {
		i = len(d.slots[row])
		d.slots[row] = append(d.slots[row], &slot{})
	}
	s := d.slots[row][i]
	s.client = client
	s.users++
	who.slot = fmt.Sprintf("%s %d", row, i) // clients of other groups have other slots
	return who, func(g *Group) {
			d.mu.Lock()
			defer d.mu.Unlock()
			s.servers = nil
			for _, srv := range g.servers {
				if srv.Unshared() {
					s.servers = append(s.servers, srv.ID)
				}
			}
		}, func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			s.users--
		}
}

// awake reports whether a server may have a process.
func (d *Daemon) awake(id string) bool {
	t := d.opts.Engine.Tracker()
	return t.Knows(id) && !t.Dormant(id)
}
