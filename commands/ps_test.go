package commands

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/daemon"
	"github.com/mcptrack/mcptrack/core/machine"
)

// The daemon saves a program for each further client of a server that runs, less what the relays need.
func TestSharedBy(t *testing.T) {
	t.Parallel()
	st := daemon.Status{Servers: []daemon.ServerStatus{{PID: 1, Clients: 3, Memory: 50}, {PID: 2, Clients: 1, Memory: 70}, {PID: 3, Memory: 9}, {Clients: 4}}}
	relays := machine.Group{Relay: true, Servers: []machine.Server{{Memory: 10}, {Memory: 12}}}
	if got := sharedBy(st, []machine.Group{relays, {Servers: []machine.Server{{Memory: 1000}}}}); got == nil || *got != (psShared{Programs: 3, Instead: 5, MemoryBytes: 78}) {
		t.Errorf("%+v", got)
	}
	if got := sharedBy(daemon.Status{Servers: st.Servers[3:]}, nil); got != nil {
		t.Errorf("%+v", got)
	}
}
