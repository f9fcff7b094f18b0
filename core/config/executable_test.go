//go:build unix

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program that exists is not reported as missing, but why it cannot be started.
func TestWhyAProgramCannotBeStarted(t *testing.T) {
	dir := t.TempDir()
	for _, folder := range []string{"bin", "folder"} {
		if err := os.Mkdir(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "bin", "script"), "#!/bin/sh\n")
	opts := surroundings(t, map[string]string{"PATH": filepath.Join(dir, "bin")})
	opts.Workspace = dir
	for command, want := range map[string]string{
		"./bin/script": `command "./bin/script" is not executable`, "./folder": `command "./folder" is a directory`, "./none": `command "./none" does not exist`,
		"script": `command "script" is not executable`, "none": `there is no program "none" in PATH`, filepath.Join(dir, "folder"): "is a directory",
	} {
		c, problems := Parse([]byte(`{"servers":[{"id":"a","command":"`+command+`"}]}`), "f", opts)
		if c == nil || len(problems) != 1 || problems[0].Code != CodeCommandNotFound || !strings.Contains(c.Servers[0].Unconfigured().Error(), want) {
			t.Errorf("%s: %v, want %s", command, problems, want)
		}
	}
}
