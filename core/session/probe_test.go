package session_test

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// Lists that a server does not offer are reported as empty while the others are requested
// concurrently; run with -race.
func TestProbeReportsListsNotOfferedAsEmpty(t *testing.T) {
	var n sessiontest.Net
	docs := n.Serve("docs", session.EraLegacy)
	docs.Capabilities = map[string]any{"resources": map[string]any{}}
	docs.SetQuietly("file:///a.md", "one")
	var servers []config.Server
	for range 20 {
		servers = append(servers, sessiontest.Entry("docs"))
	}
	for _, r := range session.Probe(t.Context(), servers, session.ProbeOptions{Dial: n.Dial}) {
		if r.Err != nil || len(r.Lists) != len(catalog.Kinds()) || len(r.Lists[catalog.Resources]) != 1 {
			t.Errorf("%v, lists %v", r.Err, r.Lists)
		}
	}
	n.Wait()
}

// The report has the Info that tracking would use, although the lists are requested without a
// notification stream.
func TestProbeReportsTracking(t *testing.T) {
	for name, tt := range map[string]struct {
		noGET, modern bool
		protocol      config.Protocol
		want          session.Era
		push          bool
	}{
		"both eras":                 {false, true, "", session.EraModern, true},
		"legacy":                    {false, false, "", session.EraLegacy, true},
		"legacy that never pushes":  {true, false, "", session.EraLegacy, false},
		"both, kept to legacy":      {false, true, config.ProtocolLegacy, session.EraLegacy, true},
		"both, without, kept to it": {true, true, config.ProtocolLegacy, session.EraLegacy, false},
	} {
		t.Run(name, func(t *testing.T) {
			srv := newServer(true, tt.modern)
			srv.NoGET, srv.NoSession = tt.noGET, tt.noGET
			entry := httpEntry(listenOn(t, srv).URL + "/mcp")
			entry.Protocol = tt.protocol
			for _, tracked := range []bool{false, true} {
				r := session.Probe(t.Context(), []config.Server{entry}, session.ProbeOptions{Tracked: tracked})[0]
				if push := tracked && tt.push; r.Err != nil || r.Info.Era != tt.want || r.Info.Push != push || r.Info.Transport != config.TransportHTTP || len(r.Lists[catalog.Resources]) != 3 {
					t.Errorf("tracked %t: %v, %+v", tracked, r.Err, r.Info)
				}
			}
			s := dial(t, entry, session.Options{})
			if got := s.Info(); got.Era != tt.want || got.Push != tt.push {
				t.Errorf("a session that tracks has %+v", got)
			}
		})
	}
}
