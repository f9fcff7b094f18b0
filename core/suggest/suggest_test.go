package suggest

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	t.Parallel()
	candidates := []string{"command", "args", "trackResources", "workingDirectory", "url", "enabled", "watch", "hat", "bat", strings.Repeat("x", 1<<20)}
	for name, want := range map[string]string{"comand": "command", "commnad": "command", "TrackResources": "trackResources",
		"track_resources": "trackResources", "working-directory": "workingDirectory", "ulr": "url", "arg": "args", "wach": "watch", "watch": "watch",
		"cat": "bat", "completelyDifferent": "", "x": "", "": "", strings.Repeat("command", 100): ""} {
		if got := Nearest(name, candidates); got != want {
			t.Errorf("%.20s: %q, want %q", name, got, want)
		}
	}
}
