//go:build linux

package main

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

// output runs the program to its end and returns what it printed and how it ended.
func (t *tracker) output(args ...string) (out, errs string, exit int) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	var o, e bytes.Buffer
	cmd := exec.CommandContext(ctx, t.bin, args...)
	cmd.Stdout, cmd.Stderr = &o, &e
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		return "", err.Error(), -1
	}
	return o.String(), e.String(), cmd.ProcessState.ExitCode()
}

// beside starts a second serve-sse on the directory of the running one: it has to end with 1
// and say which process has the directory. replay, history and diff have to work beside it,
// while resources change, and replay has to print what is served.
func (s *suite) beside() error {
	wrong := func(format string, args ...any) {
		s.result.lost++
		s.report.note(format, args...)
	}
	_, errs, exit := s.output("serve-sse", "--config", s.config(), "--addr", freeAddr(), "--data-dir", s.data())
	if exit != 1 || !strings.Contains(errs, fmt.Sprintf("process %d", s.pid())) {
		wrong("the second serve-sse ended with %d: %s", exit, errs)
	}
	for range 5 {
		s.each(func(st *stand) { st.change(true) })
		lines, _, err := s.log()
		if err != nil {
			return err
		}
		out, errs, exit := s.output("replay", "--data-dir", s.data())
		if exit != 0 || errs != "" || !strings.HasPrefix(out, strings.Join(lines, "\n")+"\n") {
			wrong("replay beside ended with %d and printed %d bytes: %s", exit, len(out), errs)
		}
		st := s.stands[0]
		out, errs, exit = s.output("history", st.id, st.uri(0), "--data-dir", s.data(), "--json")
		if exit != 0 || errs != "" || strings.Count(out, `"sha256:`) < 2 {
			wrong("history beside ended with %d: %.300s %s", exit, out, errs)
		}
		out, errs, exit = s.output("diff", st.id, st.uri(0), "--data-dir", s.data())
		if exit != 0 || errs != "" || !strings.Contains(out, "+version ") {
			wrong("diff beside ended with %d: %.300s %s", exit, out, errs)
		}
	}
	return nil
}
