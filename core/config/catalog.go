package config

import (
	"fmt"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// catalog reads the keys that only a catalog has, and clears the settings that only an MCP
// server has.
func (e *entry) catalog(s *Server) {
	interval := e.duration("catalogInterval", DefaultCatalogInterval, minPollInterval)
	if s.Transport != TransportCatalog {
		if f, ok := e.present("catalogInterval"); ok {
			e.warnAt(f.key, f.path, CodeIneffective,
				fmt.Sprintf(`%s has "catalogInterval", which does nothing for a server that is not a catalog`, e.label),
				`for a server that cannot push, use "pollInterval"; for a catalog, set "type": "catalog"`)
		}
		return
	}
	s.CatalogInterval = interval
	for _, name := range []string{"trackResources", "trackTools", "trackPrompts", "include", "exclude", "read",
		"mode", "pollInterval", "safetyInterval", "events", "onConnect", "protocol", "protocolEra", "connectTimeout"} {
		f, ok := e.present(name)
		if !ok || f.value.Kind == tree.Bool && !f.value.True() {
			continue
		}
		hint := "leave it out: a catalog describes HTTP APIs, which are not tracked; the gateway serves them as tools"
		if name == "pollInterval" {
			hint = `use "catalogInterval"`
		}
		e.warnAt(f.key, f.path, CodeIneffective, fmt.Sprintf("%s has %q, which has no effect on a catalog", e.label, name), hint)
	}
	s.TrackResources, s.TrackTools, s.TrackPrompts = false, false, false
	s.Include, s.Exclude, s.Read, s.OnConnect = nil, nil, ReadNone, nil
	s.Events = Events{}
	s.Mode, s.PollInterval, s.SafetyInterval = ModeAuto, 0, 0
	s.ConnectTimeout, s.Protocol, s.Unshared = 0, ProtocolAuto, false
}
