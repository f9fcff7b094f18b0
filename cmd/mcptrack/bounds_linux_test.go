package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFilesAreBounded: a file, FIFO or device without an end, wherever a flag names a
// file, is refused at once and within little memory.
func TestFilesAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	huge := filepath.Join(dir, "huge")
	if err := os.WriteFile(huge, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(huge, 1<<40); err != nil {
		t.Fatal(err)
	}
	demo := demoFile(t)
	for _, args := range []string{
		"status --token-file FILE",
		"serve-sse --demo --addr 127.0.0.1:0 --token-file FILE",
		"serve-sse --demo --addr 127.0.0.1:0 --tls-cert FILE --tls-key FILE",
		"serve-sse --demo --addr 127.0.0.1:0 --nats nats://127.0.0.1:1 --nats-credentials FILE",
		"serve-sse --config FILE",
		"watch --config FILE",
		"list --config FILE",
		"validate FILE",
		"gateway --config " + demo + " --addr 127.0.0.1:0 --token-file FILE",
		"vault " + dir + " --addr 127.0.0.1:0 --token-file FILE",
		"vault FILE --stdio",
		"inject --demo --model m --api-key-file FILE",
		"inject --from http://127.0.0.1:1 --from-token-file FILE --model m",
		"replay --nats nats://127.0.0.1:1 --nats-credentials FILE",
		"replay --data-dir FILE",
		"history x file:///a --data-dir FILE",
		"tail http://127.0.0.1:1 --token-file FILE",
		"init --from FILE new.json",
	} {
		for _, file := range []string{"/dev/zero", fifo, huge} {
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			// A limit of the address space: nothing else bounds memory for certain.
			cmd := exec.CommandContext(ctx, "sh", "-c", `ulimit -v 3000000 && exec mcptrack "$@"`, "sh")
			cmd.Args = append(cmd.Args, strings.Fields(strings.ReplaceAll(args, "FILE", file))...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "HOME="+dir, "OPENAI_API_KEY=")
			out, err := cmd.CombinedOutput()
			exit, ok := errors.AsType[*exec.ExitError](err)
			switch {
			case ctx.Err() != nil:
				t.Errorf("%s with %s does not end: %s", args, file, out)
			case !ok || exit.ExitCode() < 1 || exit.ExitCode() > 5 || strings.Contains(string(out), "out of memory") || strings.Contains(string(out), "goroutine "):
				t.Errorf("%s with %s: %v\n%.2000s", args, file, err, out)
			}
			cancel()
		}
	}
}
