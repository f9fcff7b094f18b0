package cli

import (
	"testing"

	"github.com/mcptrack/mcptrack/core/session"
)

func TestLimits(t *testing.T) {
	got, err := parseLimits(map[string]string{"pages": "7", "items": "20000", "list": "64MiB", "line": "64KiB", "body": "16MiB", "dirty": "1"})
	want := session.Limits{MaxPages: 7, MaxItems: 20000, MaxList: 64 << 20, MaxLine: 64 << 10, MaxBody: 16 << 20, MaxDirty: 1}
	if err != nil || got != want {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	for name, value := range map[string]string{"page": "7", "pages": "0", "items": "-1", "line": "4GiB", "body": "4000MiB", "dirty": ""} {
		if got, err := parseLimits(map[string]string{name: value}); err == nil {
			t.Errorf("%s=%s gave %+v", name, value, got)
		}
	}
}
