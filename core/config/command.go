package config

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// checkCommand warns of commands that will most likely not start, or start and
// then wait for ever. It never shows the arguments.
func (e *entry) checkCommand(s *Server, f field) {
	if tokenShaped(text(f.value)) {
		e.warnSecret(f.value.StartOffset, f.path, `"command"`)
	}
	name := "" // shown only if it stands so in the file
	if raw := strings.TrimSpace(text(f.value)); raw == s.Command && !tokenShaped(raw) {
		name = " " + quote(raw)
	}
	warn := func(code Code, message, hint string) {
		e.warnAt(f.value.StartOffset, f.path, code, e.label+" "+message, hint)
	}
	if !e.commandExists(s) {
		switch {
		case strings.ContainsAny(s.Command, " \t|;&<>"):
			warn(CodeShellLine, `has a "command" that looks like a whole shell line`,
				`"command" is the program alone, started without a shell; put each argument into "args"`)
		case strings.HasPrefix(s.Command, "~"):
			warn(CodeCommandNotFound, fmt.Sprintf("command%s not found", name), `"~" means nothing here; write ${userHome}`)
		case strings.ContainsRune(s.Command, filepath.Separator):
			warn(CodeCommandNotFound, fmt.Sprintf("command%s not found", name), "it must exist and be executable")
		default:
			warn(CodeCommandNotFound, fmt.Sprintf("command%s not found on PATH", name), "install it, or write its full path")
		}
	}
	program := strings.TrimSuffix(strings.ToLower(filepath.Base(s.Command)), ".exe")
	switch strings.TrimSuffix(program, ".cmd") {
	case "npx":
		if !slices.ContainsFunc(npxOptions(s.Args), func(a string) bool {
			return a == "-y" || a == "--yes" || a == "--yes=true" || a == "--no" || a == "--no-install" || a == "-h" || a == "--help"
		}) {
			warn(CodePrompts, `runs npx without "-y"`, `npx may ask before it installs, and nobody can answer; add "-y" before the package`)
		}
	case "docker", "podman":
		if i := slices.Index(s.Args, "run"); i >= 0 && !slices.ContainsFunc(s.Args[i:], keepsStdin) {
			warn(CodeDockerNoStdin, fmt.Sprintf(`runs %s without "-i"`, program), `the server reads its standard input; add "-i" after "run"`)
		}
	}
}

// npxOptions returns the arguments before the package, which are for npx itself.
func npxOptions(args []string) []string {
	for i, arg := range args {
		if !strings.HasPrefix(arg, "-") && (i == 0 || args[i-1] != "-p" && args[i-1] != "--package" && args[i-1] != "-c") {
			return args[:i]
		}
	}
	return args
}

// keepsStdin reports whether an option of docker run keeps stdin open: -i, -it,
// --interactive.
func keepsStdin(arg string) bool {
	if short, ok := strings.CutPrefix(arg, "-"); ok && !strings.HasPrefix(short, "-") {
		return len(short) <= 4 && strings.Contains(short, "i")
	}
	return arg == "--interactive" || arg == "--interactive=true"
}

// commandExists reports whether the command can be found as the tracker will
// look for it: with a separator from the working directory, else on the PATH of
// the server's own environment, else on ours.
func (e *entry) commandExists(s *Server) bool {
	if strings.ContainsRune(s.Command, filepath.Separator) || strings.Contains(s.Command, "/") {
		path := s.Command
		if !filepath.IsAbs(path) {
			path = filepath.Join(s.Dir, path)
		}
		return executable(path)
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

// executable asks exec.LookPath, which knows PATHEXT on Windows and the
// permission bits elsewhere.
func executable(path string) bool {
	_, err := exec.LookPath(path)
	return err == nil || errors.Is(err, exec.ErrDot)
}
