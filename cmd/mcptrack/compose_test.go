//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// TestComposeExample checks the parts of the example that no container engine is needed for: the files
// that it mounts exist, and mcptrack has the flags that it uses.
func TestComposeExample(t *testing.T) {
	t.Parallel()
	folder := filepath.Join("..", "..", ".github", "examples")
	var compose struct {
		Services map[string]struct{ Command, Volumes []string }
	}
	text := regexp.MustCompile(`\$\{\w+:-(.*?)\}`).ReplaceAllString(readFile(t, ".github", "examples", "compose.yaml"), "$1")
	if err := yaml.Unmarshal([]byte(text), &compose); err != nil {
		t.Fatal(err)
	}
	mounts := 0
	for name, service := range compose.Services {
		for _, volume := range service.Volumes {
			source, _, _ := strings.Cut(volume, ":")
			if !strings.HasPrefix(source, ".") {
				continue // a named volume
			}
			mounts++
			if _, err := os.Stat(filepath.Join(folder, source)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	if mounts < 6 {
		t.Errorf("only %d mounts were found", mounts)
	}
	command := compose.Services["mcptrack"].Command
	if out, err := exec.CommandContext(t.Context(), mcptrackPath(t), append(command, "--help")...).CombinedOutput(); err != nil || len(command) < 4 {
		t.Errorf("mcptrack %q: %v\n%s", command, err, out)
	}
}
