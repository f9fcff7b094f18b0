package events

import (
	"encoding/json"
	"strings"
	"testing"
)

// A glob of a client is matched against every event, so one that takes long is refused.
func TestFilterRefusesGlobsThatTakeLong(t *testing.T) {
	t.Parallel()
	for _, member := range []string{"server", "uri"} {
		raw, _ := json.Marshal(map[string]string{member: strings.Repeat("{,a}", 40) + "z"})
		if _, _, err := ParseFilter(ResourceUpdated, raw); err == nil {
			t.Errorf("%s was accepted: %s", member, raw)
		}
	}
	if _, _, err := ParseFilter(ResourceUpdated, json.RawMessage(`{"server":"{docs,team-*}","uri":"file:///**/*.{md,txt}"}`)); err != nil {
		t.Error(err)
	}
}
