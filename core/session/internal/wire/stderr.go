package wire

import (
	"fmt"
	"slices"
	"strings"
)

// maxStack is how many of the last lines of stderr are searched for an error: a stack
// trace with its message, and not what a long-lived server reported earlier.
const maxStack = 50

// stderrCause returns the lines of stderr that explain the end of a program, joined
// with " | ": the first that looks like an error and the last one, or the last three if
// none looks like an error.
func stderrCause(lines []string) string {
	recent := lines[max(0, len(lines)-maxStack):]
	for i, line := range recent {
		if !looksLikeError(line) {
			continue
		}
		if i == len(recent)-1 {
			return line
		}
		return line + " | " + recent[len(recent)-1]
	}
	for _, line := range slices.Backward(lines) {
		if strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") { // Go, before all its goroutines
			return line + " | " + recent[len(recent)-1]
		}
	}
	return strings.Join(lines[max(0, len(lines)-3):], " | ")
}

// looksLikeError recognises the line in which common runtimes and package managers say
// what went wrong.
func looksLikeError(line string) bool {
	line = strings.ReplaceAll(strings.ToLower(line), "non-fatal", "")
	for _, sign := range []string{
		"error:",      // Node, Python, compilers
		"error [",     // Node: Error [ERR_MODULE_NOT_FOUND]: …
		"exception:",  // Java, .NET
		"fatal",       // Go, git, loggers
		"panic:",      // Go
		"panicked at", // Rust
		"npm error", "npm err!",
	} {
		if strings.Contains(line, sign) {
			return true
		}
	}
	return false
}

// WithOutput adds to the error of a request without an answer what the server wrote instead: a
// line on stdout that is not a message, such as that of a logger, and what its process wrote to
// stderr.
func (c *Conn) WithOutput(err error) error {
	if line := c.noise(); line != "" {
		err = fmt.Errorf("%w (stdout is not JSON-RPC: %s)", err, line)
	}
	if lines := c.stderr(); len(lines) > 0 {
		return fmt.Errorf("%w (stderr: %s)", err, stderrCause(lines))
	}
	return err
}

// redacted returns a function that calls lines and removes secrets from its results.
func redacted(lines func() []string, redact func(string) string) func() []string {
	return func() []string {
		out := lines()
		for i, line := range out {
			out[i] = redact(line)
		}
		return out
	}
}
