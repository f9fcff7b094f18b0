package mcpevents

import (
	"encoding/json"
	"strings"
	"testing"
)

// A client's glob is matched against every event, so the time that it takes is bounded.
func TestFilterBoundsGlobs(t *testing.T) {
	t.Parallel()
	for _, member := range []string{"server", "uri"} {
		for g, ok := range map[string]bool{strings.Repeat("a", 1025): false, "{a": false, strings.Repeat("{,a}", 40) + "z": true} {
			raw, _ := json.Marshal(map[string]string{member: g})
			f, _, err := ParseFilter(ResourceUpdated, raw)
			if (err == nil) != ok {
				t.Errorf("%s: %v", raw, err)
			}
			// Trying every combination of the groups would exceed the time limit of tests.
			if ok && f.Matches(&Occurrence{Name: ResourceUpdated, Server: strings.Repeat("a", 60), uri: strings.Repeat("a", 60)}) {
				t.Errorf("%s matches", raw)
			}
		}
	}
	if _, _, err := ParseFilter(ResourceUpdated, json.RawMessage(`{"server":"{docs,team-*}","uri":"file:///**/*.{md,txt}"}`)); err != nil {
		t.Error(err)
	}
}
