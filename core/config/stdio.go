package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// programKeys reads the keys of an entry that say which program is started, and how.
type programKeys struct{ *entry }

// stdio reads how a program is started. Types are checked for every transport; files and
// folders only if a program is started.
func (e programKeys) stdio(s *Server) {
	program := s.Transport == TransportStdio
	badArg := func(i int) string { return fmt.Sprintf("%s argument at index %d must be a string", e.label, i) }
	command, commandField, args, rawArgs := e.command(badArg)
	more, rawMore := e.strings("args", badArg)
	args, rawArgs = append(args, more...), append(rawArgs, rawMore...)
	for i, arg := range args {
		if strings.ContainsRune(arg, 0) {
			e.invalidValue(rawArgs[i], e.path.key("args"), CodeValue, "an argument with a NUL character", "")
		}
	}
	e.secretArgs(rawArgs)
	e.bareVariables(command, rawArgs)
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
		e.checkCommand(commandField)
	}
}

// command returns the trimmed command ("" if it is absent, or reported as invalid) and the
// arguments given in the same key: opencode has one list for both, and Zed had an object.
func (e programKeys) command(badArg func(int) string) (command string, f field, args []string, raw []*tree.Node) {
	f, ok := e.find("command", "cmd")
	if !ok {
		return "", f, nil, nil
	}
	needs := fmt.Sprintf(`%s must include a non-empty string "command"`, e.label)
	switch {
	case f.value.Kind == tree.List && len(f.value.Items) > 0 && f.value.Items[0].Kind == tree.String:
		args, raw = e.items(f, f.value.Items[1:], 1, badArg)
		f.value, f.path = f.value.Items[0], f.path.index(0)
	case f.value.Kind == tree.Object && f.value.Get("path") != nil && f.value.Get("path").Value.Kind == tree.String:
		inner := e.reader.entry(f.value, f.path, e.label)
		inner.server, inner.missing = e.server, e.missing
		args, raw = inner.strings("args", badArg)
		f.value, f.path = f.value.Get("path").Value, f.path.key("path")
	case f.value.Kind != tree.String:
		e.errorAt(f.value.Offset, f.path, CodeType, needs, "")
		return "", f, nil, nil
	}
	value, ok := e.expand(f.value, f.path, f.name)
	if !ok {
		return "", f, args, raw
	}
	switch value = strings.TrimSpace(value); {
	case value == "" && strings.TrimSpace(f.value.Text) != "":
		e.lacks(f.value, f.path, CodeValue, `"command" is empty`, "")
	case value == "":
		e.errorAt(f.value.Offset, f.path, CodeValue, needs, "")
	case strings.ContainsRune(value, 0):
		e.invalidValue(f.value, f.path, CodeValue, `a "command" with a NUL character`, "")
	case strings.ContainsAny(value, noBreakSpaces):
		e.invalidValue(f.value, f.path, CodeValue, `a "command" with a no-break space`, "replace it by a normal space")
	}
	return value, f, args, raw
}

// noBreakSpaces are characters that look like spaces, or like nothing, and get into commands
// copied from a web page.
const noBreakSpaces = "\u00a0\u202f\u2060\ufeff"

// env returns the variables of the entry, and the names that it sets to null, which remove a
// variable of the envFile.
func (e programKeys) env() (env map[string]Secret, unset map[string]bool) {
	env, unset = map[string]Secret{}, map[string]bool{}
	e.passedOn(env)
	f, ok := e.find("env", "environment", "envs")
	inner := field{}
	if c, isCommand := e.field("command"); isCommand && c.value.Kind == tree.Object && c.value.Get("env") != nil { // Zed
		m := c.value.Get("env")
		inner = field{name: "env", key: m.Offset, value: m.Value, path: c.path.key("env")}
	}
	for _, f := range []field{inner, f} {
		if f.value == nil || f.value.Kind == tree.Null {
			continue
		}
		if f.value.Kind != tree.Object {
			e.invalid(f, "object of strings", `write {"NAME": "value"}`)
			continue
		}
		for name, m := range firstMembers(f.value) {
			e.variable(f.path.key(name), f, name, m, env, unset)
		}
	}
	if !ok && inner.value == nil && len(env) == 0 {
		return nil, nil
	}
	return env, unset
}

// variable reads one member of "env".
func (e programKeys) variable(path pointer, f field, name string, m *tree.Member, env map[string]Secret, unset map[string]bool) {
	if !validEnvName(name) {
		// The name is not shown: "TOKEN=abc" may be a secret in the wrong place.
		e.errorAt(m.Offset, f.path, CodeEnv,
			fmt.Sprintf("%s has an invalid environment variable name", e.label), `write {"NAME": "value"}`)
		return
	}
	switch m.Value.Kind {
	case tree.Null:
		unset[name] = true
	case tree.Number:
		env[name] = NewSecret(m.Value.Text)
	case tree.String:
		e.plaintext(name, m.Value, path, "environment variable "+quote(name))
		e.bareVariable(m.Value, path, "env."+name)
		value, ok := e.expand(m.Value, path, "env."+name)
		if strings.ContainsRune(value, 0) {
			e.invalidValue(m.Value, path, CodeEnv, fmt.Sprintf("a NUL character in environment variable %s", quote(name)), "")
			ok = false
		}
		if ok {
			env[name] = NewSecret(value)
		}
	default:
		hint := ""
		if m.Value.Kind == tree.Bool {
			hint = fmt.Sprintf("write %q", m.Value.Text)
		}
		e.errorAt(m.Value.Offset, path, CodeType,
			fmt.Sprintf("%s environment variable %s must be a string", e.label, quote(name)), hint)
	}
}

// passedOn adds the variables that the server gets from our environment by name: "env_vars" of
// Codex, which may be unset, and "env_keys" of Goose, secrets that the server needs.
func (e programKeys) passedOn(env map[string]Secret) {
	for _, key := range passedOnKeys() {
		f, ok := e.field(key)
		if !ok {
			continue
		}
		if f.value.Kind != tree.List {
			e.invalid(f, "array of names", "")
			continue
		}
		for i, item := range f.value.Items {
			item = passedOnName(item)
			if item.Kind != tree.String || !isEnvName(item.Text) {
				e.errorAt(item.Offset, f.path.index(i), CodeEnv, fmt.Sprintf("%s has an invalid environment variable name", e.label), "")
				continue
			}
			value, err := e.expander.byName(item.Text)
			switch {
			case err == nil:
				env[item.Text] = NewSecret(value)
			case key == "env_keys" || err.code != CodeUnset:
				e.lacks(item, f.path.index(i), err.code, quote(f.name)+" "+err.message, err.hint)
			}
		}
	}
}

// passedOnKeys are the keys that list names of environment variables.
func passedOnKeys() []string { return []string{"env_vars", "env_keys"} }

// passedOnName returns the name of a variable in an element of one of these lists, which is a
// string or an object {name, source}.
func passedOnName(item *tree.Node) *tree.Node {
	if item.Kind == tree.Object && item.Get("name") != nil {
		return item.Get("name").Value
	}
	return item
}

// validEnvName reports whether operating systems accept the name.
func validEnvName(name string) bool {
	return name != "" && !strings.ContainsAny(name, "=\x00") && !strings.ContainsAny(name, noBreakSpaces)
}

// dir returns the absolute working directory; a relative one is resolved against the workspace.
func (e programKeys) dir(program bool) string {
	value, f, ok := e.text("cwd", "workingDirectory")
	value = strings.TrimSpace(value)
	if !ok || !program || value == "" {
		return e.expander.workspace
	}
	dir := value
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(e.expander.workspace, dir)
	}
	if network(dir) {
		e.lacks(f.value, f.path, CodeNoDirectory, fmt.Sprintf("%q names another machine", f.name), "")
	} else if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		e.expander.refersTo(dir)
		hint := ""
		if strings.HasPrefix(value, "~") {
			hint = `"~" is not expanded here; write ${userHome}`
		}
		e.lacks(f.value, f.path, CodeNoDirectory, fmt.Sprintf("%q is not a directory", f.name), hint)
	}
	return filepath.Clean(dir)
}
