package daemon

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/daemon"
	"github.com/mcptrack/mcptrack/core/machine"
)

// The daemon saves a program for each further client of a server that runs, unless the client has a process of its
// own, less what the relays need.
func TestSharedBy(t *testing.T) {
	t.Parallel()
	st := daemon.Status{Servers: []daemon.ServerStatus{{PID: 1, Clients: 3, Memory: 50}, {PID: 2, Clients: 1, Memory: 70}, {PID: 3, Memory: 9}, {PID: 4, Own: []int{5, 6}, Clients: 4, Memory: 60}, {Clients: 4}}}
	relays := machine.Group{Relay: true, Servers: []machine.Server{{Memory: 10}, {Memory: 12}}}
	if got := sharedBy(st, []machine.Group{relays, {Servers: []machine.Server{{Memory: 1000}}}}); got == nil || *got != (psShared{Programs: 6, Instead: 9, MemoryBytes: 98}) {
		t.Errorf("%+v", got)
	}
	if got := sharedBy(daemon.Status{Servers: st.Servers[4:]}, nil); got != nil {
		t.Errorf("%+v", got)
	}
}
