package main

import (
	"errors"
	"os"
	"os/exec"
)

// replaceBy runs another program on the streams of this one, and returns its exit code.
func replaceBy(program string, args []string) int {
	cmd := exec.Command(program, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	err := cmd.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	if err != nil {
		return fail("cannot run "+program+": "+err.Error(), "", exitFailed)
	}
	return exitOK
}
