package daemon

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/mcptrack/mcptrack/core/config"
)

// A seat is one client's place in a view with servers that are not shared. A client takes the first seat
// that nobody has and whose servers sleep, so that the next session finds the lists of an earlier one, but
// never its process. A client that connects again gets its seat back unless another client has it.
type seat struct {
	// Guarded by Daemon.mu:
	client  string   // that has the seat, or had it last
	users   int      // connections of that client
	servers []string // ids in the tracker of the servers that are not shared
}

// maxRows limits how many views' seats are remembered while nobody has one.
const maxRows = 1000

// holder is what stands for the client in what is not shared: its seat, or its name if it has none.
func (p party) holder() string { return cmp.Or(p.seat, p.Client) }

// sit gives a client a seat until leave is called, unless all servers of the config are shared. seated must be
// called when the client's view is known.
func (d *Daemon) sit(who party, source Source) (_ party, seated func(*View), leave func()) {
	if !slices.ContainsFunc(source.Config.Servers, func(s config.Server) bool { return s.Unshared() }) {
		return who, func(*View) {}, func() {}
	}
	client := who.Client
	who.Client = ""
	row := viewKey(who, source)
	who.Client = client
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.seats) >= maxRows && d.seats[row] == nil {
		maps.DeleteFunc(d.seats, func(_ string, row []*seat) bool {
			return !slices.ContainsFunc(row, func(s *seat) bool { return s.users > 0 })
		})
	}
	i := slices.IndexFunc(d.seats[row], func(s *seat) bool { return s.client == client })
	if i < 0 {
		i = slices.IndexFunc(d.seats[row], func(s *seat) bool { return s.users == 0 && !slices.ContainsFunc(s.servers, d.awake) })
	}
	if i < 0 {
		i = len(d.seats[row])
		d.seats[row] = append(d.seats[row], &seat{})
	}
	s := d.seats[row][i]
	s.client = client
	s.users++
	who.seat = fmt.Sprintf("%x %d", row, i) // clients of other views have other seats
	return who, func(v *View) {
			d.mu.Lock()
			defer d.mu.Unlock()
			s.servers = nil
			for _, srv := range v.servers {
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
