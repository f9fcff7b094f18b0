package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/tailscale/hujson"
)

// stdio reads how a program is started. Types are checked whatever the
// transport; files and folders only for a program.
func (e *entry) stdio(s *Server) {
	program := s.Transport == TransportStdio
	command, commandField := e.command()
	args, rawArgs := e.strings("args", func(i int) string {
		return fmt.Sprintf("%s argument at index %d must be a string", e.label, i)
	})
	for i, arg := range args {
		if strings.ContainsRune(arg, 0) {
			e.errorAt(rawArgs[i].StartOffset, e.path.key("args"), CodeValue,
				fmt.Sprintf("%s has an argument with a NUL character", e.label), "")
		}
	}
	e.secretArgs(rawArgs)
	env, unset := e.env()
	fromFile := e.envFile(program)
	dir := e.dir(program)
	if !program {
		return
	}
	s.Command, s.Args, s.Dir = command, args, dir
	maps.DeleteFunc(fromFile, func(name string, _ Secret) bool { return unset[name] })
	if fromFile != nil {
		maps.Copy(fromFile, env)
		env = fromFile
	}
	s.Env = env
	if command != "" && s.Enabled {
		e.checkCommand(s, commandField)
	}
}

// command returns the trimmed command, "" if it is absent or reported.
func (e *entry) command() (string, field) {
	f, ok := e.find("command")
	if !ok {
		return "", f
	}
	needs := fmt.Sprintf(`%s must include a non-empty string "command"`, e.label)
	if !isString(f.value) {
		hint := ""
		if kind(f.value) == '[' {
			hint = `"command" is the program alone; its arguments go into "args"`
		}
		e.errorAt(f.value.StartOffset, f.path, CodeType, needs, hint)
		return "", f
	}
	value, ok := e.expand(f.value, f.path, f.name)
	if !ok {
		return "", f
	}
	if value = strings.TrimSpace(value); value == "" {
		e.errorAt(f.value.StartOffset, f.path, CodeValue, needs, "")
	}
	if strings.ContainsRune(value, 0) {
		e.errorAt(f.value.StartOffset, f.path, CodeValue, fmt.Sprintf(`%s has a "command" with a NUL character`, e.label), "")
	}
	return value, f
}

// env returns the variables of the entry, and the names that it sets to null,
// which take a variable away that the envFile holds.
func (e *entry) env() (env map[string]Secret, unset map[string]bool) {
	f, ok := e.find("env")
	if !ok {
		return nil, nil
	}
	object, ok := f.value.Value.(*hujson.Object)
	if !ok {
		e.invalid(f, "object of strings", `write {"NAME": "value"}`)
		return nil, nil
	}
	env, unset = make(map[string]Secret, len(object.Members)), map[string]bool{}
	for name, m := range firstMembersInOrder(object) {
		path := f.path.key(name)
		if !validEnvName(name) {
			// The name is not shown: "TOKEN=abc" is a value at the wrong place.
			e.errorAt(m.Name.StartOffset, f.path, CodeEnv,
				fmt.Sprintf("%s has an invalid environment variable name", e.label), `write {"NAME": "value"}`)
			continue
		}
		switch kind(&m.Value) {
		case 'n':
			unset[name] = true
		case '0':
			env[name] = NewSecret(text(&m.Value))
		case '"':
			e.plaintext(name, &m.Value, path, "environment variable "+quote(name))
			value, ok := e.expand(&m.Value, path, "env."+name)
			if strings.ContainsRune(value, 0) {
				e.errorAt(m.Value.StartOffset, path, CodeEnv,
					fmt.Sprintf("%s environment variable %s has a NUL character", e.label, quote(name)), "")
				ok = false
			}
			if ok {
				env[name] = NewSecret(value)
			}
		default:
			e.errorAt(m.Value.StartOffset, path, CodeType,
				fmt.Sprintf("%s environment variable %s must be a string", e.label, quote(name)), "")
		}
	}
	return env, unset
}

// validEnvName reports whether an operating system takes the name.
func validEnvName(name string) bool { return name != "" && !strings.ContainsAny(name, "=\x00") }

// dir returns the absolute working directory; relative ones start at the
// workspace.
func (e *entry) dir(program bool) string {
	value, f, ok := e.text("cwd", "workingDirectory")
	value = strings.TrimSpace(value)
	if !ok || !program {
		return e.expander.workspace
	}
	if value == "" {
		return e.expander.workspace
	}
	dir := value
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(e.expander.workspace, dir)
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		hint := ""
		if strings.HasPrefix(value, "~") {
			hint = `"~" means nothing here; write ${userHome}`
		}
		e.errorAt(f.value.StartOffset, f.path, CodeNoDirectory, fmt.Sprintf("%s has a %q that is not a directory", e.label, f.name), hint)
	}
	return filepath.Clean(dir)
}
