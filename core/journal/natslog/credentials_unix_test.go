//go:build unix

package natslog

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/mcptrack/mcptrack/core/secretfile"
)

// Credentials that everybody can read, or that never end, are rejected before anything connects.
func TestCredentialsOfOthersAreRefused(t *testing.T) {
	open := filepath.Join(t.TempDir(), "open.creds")
	if err := os.WriteFile(open, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{open, "/dev/zero"} {
		j, err := Open(t.Context(), Options{URL: "nats://127.0.0.1:1", Credentials: file})
		if _, refused := errors.AsType[*secretfile.RefusedError](err); !refused {
			t.Errorf("%s: %v", file, err)
		}
		if j != nil {
			_ = j.Close()
		}
	}
}
