//go:build linux

package main

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Published servers are audited over every transport and era. What is found is true: the Everything
// server does not check Origin and Host, and the Go SDK, in legacy sessions over HTTP, answers an unknown
// method with status 400 and no JSON-RPC error. Nothing else is more than a note.
func TestRealAuditOfPeers(t *testing.T) {
	t.Parallel()
	for peer, want := range map[string]string{
		"everything-stdio": "",
		"everything-http":  "A034",
		"everything-sse":   "A034",
		"gosdk-stdio":      "",
		"gosdk-http":       "A025",
		"gosdk-stateless":  "",
	} {
		t.Run(peer, func(t *testing.T) {
			t.Parallel()
			d := printed{t, t.TempDir(), t.TempDir()}
			file := filepath.Join(d.dir, "mcp-servers.json")
			save(t, file, config(fmt.Sprintf("%q: %s", peer, startPeer(t, peer).Config)))
			code := 0
			if want != "" {
				code = 7
			}
			doc := d.prints(code, "audit", "--config", file, "--fail-on", "warning", "--connect-timeout", "2m")
			var found []string
			for _, f := range d.member(doc, "findings") {
				if f := f.(map[string]any); f["severity"] != "note" {
					found = append(found, f["id"].(string))
				}
			}
			slices.Sort(found)
			if got := strings.Join(found, " "); got != want || len(d.member(doc, "servers")) != 1 {
				t.Errorf("%q, want %q: %v", got, want, doc)
			}
		})
	}
}
