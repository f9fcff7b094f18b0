package config

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/credential"
)

// checkCommand warns of commands that will most likely not start, or that start and then wait
// for ever. Its messages never contain the arguments.
func (e programKeys) checkCommand(f field) {
	s := e.server
	if credential.Token(f.value.Text) {
		e.warnSecret(f.value.Offset, f.path, `"command"`)
	}
	name := "" // shown only if it stands so in the file
	if raw := strings.TrimSpace(f.value.Text); raw == s.Command && !credential.Token(raw) {
		name = " " + quote(raw)
	}
	warn := func(code Code, message, hint string) {
		e.warnAt(f.value.Offset, f.path, code, e.label+" "+message, hint)
	}
	lacks := func(code Code, clause, hint string) { e.lacks(f.value, f.path, code, clause, hint) }
	if !e.commandExists(s) {
		switch {
		case isShellLine(s.Command):
			lacks(CodeShellLine, `"command" looks like a whole shell line`,
				`"command" is the program alone, started without a shell; put each argument into "args"`)
		case strings.HasPrefix(s.Command, "~"):
			lacks(CodeCommandNotFound, fmt.Sprintf("command%s not found", name), `"~" is not expanded here; write ${userHome}`)
		case strings.ContainsRune(s.Command, filepath.Separator):
			lacks(CodeCommandNotFound, fmt.Sprintf("command%s not found", name), "it must exist and be executable")
		default:
			lacks(CodeCommandNotFound, fmt.Sprintf("command%s not found on PATH", name), "install it, or write its full path")
		}
	}
	program := strings.TrimSuffix(strings.ToLower(filepath.Base(s.Command)), ".exe")
	switch strings.TrimSuffix(program, ".cmd") {
	case "docker", "podman":
		if runsContainer(s.Args) && !slices.ContainsFunc(s.Args, keepsStdin) {
			warn(CodeDockerNoStdin, fmt.Sprintf(`runs %s without "-i"`, program), `the server reads its standard input; add "-i" after "run"`)
		}
	}
}

// isShellLine reports whether a command contains more than the program. A path may have spaces:
// only an option after one shows that it is a line.
func isShellLine(command string) bool {
	if filepath.IsAbs(command) || len(command) > 2 && command[1] == ':' {
		return strings.Contains(command, " -") || strings.ContainsAny(command, "|;<>")
	}
	return strings.ContainsAny(command, " \t|;&<>")
}

// runsContainer reports whether the arguments of docker are those of "run" rather than,
// say, of "compose run", which keeps stdin open, or of "mcp gateway run".
func runsContainer(args []string) bool {
	for _, arg := range args {
		if !strings.HasPrefix(arg, "-") && arg != "container" {
			return arg == "run"
		}
	}
	return false
}

// keepsStdin reports whether an option of docker run keeps stdin open: -i, -it,
// --interactive.
func keepsStdin(arg string) bool {
	if short, ok := strings.CutPrefix(arg, "-"); ok && !strings.HasPrefix(short, "-") {
		return len(short) <= 4 && strings.Contains(short, "i")
	}
	return arg == "--interactive" || arg == "--interactive=true"
}

// commandExists reports whether the tracker will find the command: one with a path separator
// relative to the server's working directory, any other on the PATH of the server's own
// environment, or on ours if it has none.
func (e programKeys) commandExists(s *Server) bool {
	if strings.ContainsRune(s.Command, filepath.Separator) || strings.Contains(s.Command, "/") {
		path := s.Command
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.Dir, path)
		}
		if executable(path) {
			return true
		}
		e.expander.refersTo(path)
		return false
	}
	if e.lookPath != nil {
		_, err := e.lookPath(s.Command)
		return err == nil
	}
	search, _ := e.expander.getenv("PATH")
	if own, ok := s.Env["PATH"]; ok {
		search = own.Reveal()
	}
	key := [2]string{search, s.Command}
	found, known := e.commands[key]
	if !known {
		found = slices.ContainsFunc(filepath.SplitList(search), func(dir string) bool {
			return filepath.IsAbs(dir) && executable(filepath.Join(dir, s.Command))
		})
		e.commands[key] = found
	}
	return found
}

// executable reports whether a path can be executed. It uses exec.LookPath, which handles
// PATHEXT on Windows and permission bits elsewhere.
func executable(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil || errors.Is(err, exec.ErrDot)
}
