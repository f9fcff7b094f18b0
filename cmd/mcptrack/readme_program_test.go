package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestReadmeProgram: the program of the README is whole, short, and compiles.
func TestReadmeProgram(t *testing.T) {
	t.Parallel()
	_, program, ok := strings.Cut(readFile(t, "README.md"), "```go\npackage main\n")
	program, _, closed := strings.Cut(program, "```")
	if !ok || !closed {
		t.Fatal("the README has no program")
	}
	program = "package main\n" + program
	if n := strings.Count(program, "\n"); n > 35 {
		t.Errorf("the program has %d lines, which is no longer short", n)
	}
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "go", "vet", file)
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("the program does not compile: %v\n%s", err, out)
	}
}
