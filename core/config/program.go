package config

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/config/tree"
	"github.com/mcptrack/mcptrack/core/internal/program"
	"github.com/mcptrack/mcptrack/core/launcher"
)

// program reads how to start a program. The types of values are checked for every transport, files
// and folders only for stdio.
func (e *entry) program(spellings []string, s *Server) {
	stdio := s.Transport == TransportStdio
	badArg := func(i int) string { return fmt.Sprintf("%s argument at index %d must be a string", e.label, i) }
	command, commandField, args, rawArgs := e.command(spellings, badArg)
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
	fromFile := e.envFile(stdio)
	dir := e.dir(stdio)
	if !stdio {
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

// command returns the trimmed command, or an empty string if it is absent or was reported as
// invalid, and any arguments given in the same key: opencode uses one list for both, and older
// versions of Zed use an object.
func (e *entry) command(spellings []string, badArg func(int) string) (command string, f field, args []string, raw []*tree.Node) {
	f, ok := e.find(spellings...)
	if !ok {
		return "", f, nil, nil
	}
	needs := fmt.Sprintf(`%s must include a non-empty string "command"`, e.label)
	switch {
	case f.value.Kind == tree.List && len(f.value.Items) > 0 && f.value.Items[0].Kind == tree.String:
		args, raw = e.items(f, f.value.Items[1:], 1, badArg)
		f.value, f.path = f.value.Items[0], f.path.index(0)
	case f.value.Kind == tree.Object && f.value.Get("path") != nil && f.value.Get("path").Value.Kind == tree.String:
		args, raw = e.inside(f).strings("args", badArg)
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
	}
	return value, f, args, raw
}

// env returns the environment variables of the entry, and the names that it sets to null, which
// removes these variables from the envFile.
func (e *entry) env() (env map[string]Secret, unset map[string]bool) {
	env, unset = map[string]Secret{}, map[string]bool{}
	e.passedOn(env)
	for _, f := range e.envFields() {
		if f.value.Kind != tree.Object {
			e.invalid(f, "object of strings", `write {"NAME": "value"}`)
			continue
		}
		for name, m := range firstMembers(f.value) {
			e.variable(f.path.key(name), f, name, m, env, unset)
		}
	}
	return env, unset
}

// envFields returns the fields that contain objects with environment variables. In older versions
// of Zed, "command" contains such an object.
func (e *entry) envFields() (all []field) {
	if c, ok := e.field("command"); ok {
		if m := c.value.Get("env"); m != nil && m.Value.Kind != tree.Null {
			all = append(all, field{name: "env", key: m.Offset, value: m.Value, path: c.path.key("env")})
		}
	}
	if f, ok := e.find(e.keys.get("env").spellings...); ok {
		all = append(all, f)
	}
	return all
}

func (e *entry) variable(path pointer, f field, name string, m *tree.Member, env map[string]Secret, unset map[string]bool) {
	if !validEnvName(name) {
		// Omit the name: "TOKEN=abc" may be a misplaced secret.
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

// passedOn adds the variables that the entry passes on by name from mcptrack's own environment:
// "env_vars" of Codex, which may be unset, and "env_keys" of Goose, which must be set.
func (e *entry) passedOn(env map[string]Secret) {
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

// passedOnKeys returns the keys that list names of environment variables.
func passedOnKeys() []string { return []string{"env_vars", "env_keys"} }

// passedOnName returns the node with the name in an element of such a list, which is a string or an
// object {name, source}.
func passedOnName(item *tree.Node) *tree.Node {
	if item.Kind == tree.Object && item.Get("name") != nil {
		return item.Get("name").Value
	}
	return item
}

// validEnvName reports whether operating systems accept s as the name of an environment variable.
func validEnvName(name string) bool {
	return name != "" && !strings.ContainsAny(name, "=\x00")
}

// dir returns the absolute working directory. A relative path is resolved against the workspace.
func (e *entry) dir(program bool) string {
	value, f, ok := e.text(e.keys.get("cwd").spellings...)
	value = strings.TrimSpace(value)
	if !ok || !program || value == "" {
		return e.expander.workspace
	}
	dir := value
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(e.expander.workspace, dir)
	}
	if network(dir) {
		e.lacks(f.value, f.path, CodeNoDirectory, fmt.Sprintf("%q refers to another machine", f.name), "")
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

// checkCommand reports a warning for a command that will probably fail to start, or that will start
// and then hang. Its messages never contain the arguments.
func (e *entry) checkCommand(f field) {
	s := e.server
	if credential.Token(f.value.Text) {
		e.warnSecret(f.value.Offset, f.path, `"command"`)
	}
	name := "" // empty unless the file contains the name in plain text
	if raw := strings.TrimSpace(f.value.Text); raw == s.Command && !credential.Token(raw) {
		name = " " + quote(raw)
	}
	search, _ := e.expander.getenv("PATH")
	if _, err := s.find(search); err != nil {
		if program.HasPath(s.Command) {
			e.expander.refersTo(program.File(s.Command, s.Dir))
		}
		code, clause, hint := CodeCommandNotFound, "command"+name+" "+err.Error(), "it must exist and be executable"
		switch {
		case isShellLine(s.Command):
			code, clause = CodeShellLine, `"command" looks like a shell command line`
			hint = `"command" must be only the program, which is started without a shell; put each argument in "args"`
		case strings.HasPrefix(s.Command, "~"):
			hint = `"~" is not expanded here; write ${userHome}`
		case errors.Is(err, exec.ErrNotFound):
			clause, hint = "there is no program"+name+" in PATH", "install it, or specify its full path"
		}
		e.lacks(f.value, f.path, code, clause, hint)
	}
	if c := launcher.Parse(append([]string{s.Command}, s.Args...)); c.Kind == launcher.Image && !c.Has("-i", "--interactive") {
		e.warnAt(f.value.Offset, f.path, CodeDockerNoStdin, fmt.Sprintf(`%s runs %s without "-i"`, e.label, c.Tool),
			`the server reads its standard input; add "-i" after "run"`)
	}
}

// programName returns the name of a program in lower case.
func programName(command string) string { return strings.ToLower(launcher.Base(command)) }

// Runs reports whether the server is a command of mcptrack, which global flags may precede.
func (s *Server) Runs(command string) bool {
	return programName(s.Command) == "mcptrack" && slices.Contains(s.Args, command)
}

// Attaches reports whether the server is mcptrack's daemon: it runs "mcptrack attach". Such an entry
// stands for a server of another config, see mcptrack connect.
func (s *Server) Attaches() bool {
	return programName(s.Command) == "mcptrack-attach" || s.Runs("attach")
}

// isShellLine reports whether a command contains more than the program. Because a path may contain
// spaces, it is only considered a shell command line if it contains an option or an operator.
func isShellLine(command string) bool {
	if filepath.IsAbs(command) || len(command) > 2 && command[1] == ':' {
		return strings.Contains(command, " -") || strings.ContainsAny(command, "|;<>")
	}
	return strings.ContainsAny(command, " \t|;&<>")
}

// Find returns the path of the file that the command runs, or false if there is none. A command with a
// path separator is resolved against the working directory of the server; otherwise the PATH in the
// server's environment is searched or, if it is not set, search, the PATH of this process.
func (p *Program) Find(search string) (path string, found bool) {
	path, err := p.find(search)
	return path, err == nil
}

func (p *Program) find(search string) (string, error) {
	if own, ok := p.Env["PATH"]; ok {
		search = own.Reveal()
	}
	return program.Find(p.Command, p.Dir, search)
}

// bareVariables reports a warning for each $NAME in the command and its arguments, except in the
// arguments of programs that expand them.
func (e *entry) bareVariables(command string, args []*tree.Node) {
	expanding := []string{"sh", "bash", "zsh", "dash", "ash", "ksh", "fish", "pwsh", "powershell", "env", "docker", "podman", "wsl"}
	if f, ok := e.first("command"); ok && f.value.Kind == tree.String {
		e.bareVariable(f.value, f.path, f.name)
	}
	if slices.Contains(expanding, programName(command)) {
		return
	}
	for i, arg := range args {
		e.bareVariable(arg, e.path.key("args").index(i), fmt.Sprintf("args[%d]", i))
	}
}

// bareVariable reports a warning for $NAME in a value, which some hosts expand but mcptrack does
// not.
func (e *entry) bareVariable(n *tree.Node, path pointer, name string) {
	if n.Kind != tree.String || !strings.Contains(n.Text, "$") || !e.server.Enabled {
		return
	}
	variable := bareName(n.Text)
	if variable == "" {
		return
	}
	if credential.Doubtful(variable) || len(variable) > 64 {
		variable = "NAME"
	}
	e.warnAt(n.Offset, path, CodeBareVariable,
		fmt.Sprintf("%s: %s has $%s, which is not expanded", e.label, quote(name), variable), fmt.Sprintf("write ${%s}", variable))
}

// bareName returns the first name that is written as $NAME or $env:NAME in s and consists of at
// least two upper-case letters, digits and underscores. "$$" and "\\$" represent a literal dollar
// sign.
func bareName(s string) string {
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '\\':
			i++
		case s[i] == '$' && strings.HasPrefix(s[i+1:], "$"):
			i++
		case s[i] == '$':
			rest := strings.TrimPrefix(s[i+1:], "env:")
			n := 0
			for n < len(rest) && (rest[n] == '_' || 'A' <= rest[n] && rest[n] <= 'Z' || n > 0 && '0' <= rest[n] && rest[n] <= '9') {
				n++
			}
			if n > 1 && rest[0] != '_' {
				return rest[:n]
			}
		}
	}
	return ""
}

// An envFile is a parsed dotenv file. It is parsed once, even if several servers refer to it.
//
// joho/godotenv is not used because it expands $NAME and ${NAME} in values, which would change
// passwords that contain a dollar sign, and because it has no size limit. The supported syntax is
// the common subset of VS Code and docker compose: NAME=VALUE lines, blank lines, # comments at the
// start of a line or after a space, an optional "export ", literal '…', and "…" with \n \r \t \" \\
// \$. Nothing is expanded. If a name occurs repeatedly, the last value is used.
type envFile struct {
	values map[string]string
	size   int
	text   string // unparsed content of the file
	err    string // describes what is wrong with the file, without quoting its content
	hint   string
}

// envFile returns the variables in the file specified by "envFile". A relative path is resolved
// against the workspace.
func (e *entry) envFile(program bool) map[string]Secret {
	value, f, ok := e.text("envFile")
	if !ok || !program {
		return nil
	}
	bad := func(what, hint string) {
		e.lacks(f.value, f.path, CodeEnvFile, fmt.Sprintf(`"envFile" %s`, what), hint)
	}
	if value == "" {
		bad("is empty", "remove it, or specify a file")
		return nil
	}
	path := value
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.expander.workspace, path)
	}
	e.expander.refersTo(path)
	file, known := e.envFiles[path]
	if !known {
		if problem := e.expander.refused(path); problem != "" {
			file = envFile{err: problem, hint: refusedHint}
		} else {
			file = readEnvFile(path)
		}
		e.envFiles[path] = file
	}
	use := e.expander.fileUse(f.value.Text, path, file.text)
	use.Sets = strings.Join(slices.Sorted(maps.Keys(file.values)), ", ")
	e.expander.use(use)
	if file.err != "" {
		hint := file.hint
		if hint == "" && !filepath.IsAbs(value) {
			hint = "relative paths are resolved against ${workspaceFolder}, by default the working directory"
		}
		if strings.HasPrefix(value, "~") {
			hint = `"~" is not expanded here; write ${userHome}`
		}
		bad(file.err, hint)
		return nil
	}
	if e.expander.expanded += file.size; e.expander.expanded > maxExpanded {
		bad(fmt.Sprintf("makes the variables of all servers exceed %d MiB", maxExpanded>>20), "")
		return nil
	}
	env := make(map[string]Secret, len(file.values))
	for name, value := range file.values {
		env[name] = NewSecret(value)
	}
	return env
}

func readEnvFile(path string) envFile {
	data, _, problem := openFile(path, MaxFileSize)
	if problem != nil {
		switch problem.Code {
		case CodeNotFound:
			return envFile{err: "does not exist"}
		case CodeUnreadable:
			return envFile{err: "cannot be read"}
		}
		return envFile{err: problem.Message}
	}
	values, line, what := parseEnv(string(data))
	if what != "" {
		return envFile{err: fmt.Sprintf("line %d %s", line, what)}
	}
	return envFile{values: values, size: len(data), text: string(data)}
}

// parseEnv returns the variables in the text of a dotenv file, or the first invalid line and what
// is wrong with it.
func parseEnv(s string) (values map[string]string, line int, what string) {
	values = map[string]string{}
	s = strings.TrimPrefix(s, "\ufeff")
	for text := range strings.SplitSeq(s, "\n") {
		line++
		text = strings.TrimSpace(text)
		if text == "" || text[0] == '#' {
			continue
		}
		name, rest, ok := strings.Cut(strings.TrimPrefix(text, "export "), "=")
		name = strings.TrimSpace(name)
		if !ok || !isEnvName(name) {
			return nil, line, "is not NAME=VALUE"
		}
		value, what := envValue(strings.TrimSpace(rest))
		if what != "" {
			return nil, line, what
		}
		if strings.ContainsRune(value, 0) {
			return nil, line, "has a NUL character"
		}
		values[name] = value
	}
	return values, 0, ""
}

// envValue unquotes a value and removes a trailing comment. If the value is invalid, what describes
// the problem.
func envValue(s string) (value, what string) {
	if s == "" || s[0] == '#' {
		return "", ""
	}
	quote := s[0]
	if quote != '"' && quote != '\'' {
		for i := 1; i < len(s); i++ {
			if s[i] == '#' && (s[i-1] == ' ' || s[i-1] == '\t') {
				return strings.TrimSpace(s[:i]), ""
			}
		}
		return s, ""
	}
	var out strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == quote:
			if rest := strings.TrimSpace(s[i+1:]); rest != "" && rest[0] != '#' {
				return "", "has text after the closing quote"
			}
			return out.String(), ""
		case c == '\\' && quote == '"' && i+1 < len(s):
			i++
			switch s[i] {
			case 'n':
				out.WriteByte('\n')
			case 'r':
				out.WriteByte('\r')
			case 't':
				out.WriteByte('\t')
			case '"', '\\', '$':
				out.WriteByte(s[i])
			default:
				out.WriteByte('\\')
				out.WriteByte(s[i])
			}
		default:
			out.WriteByte(c)
		}
	}
	return "", "has an unclosed quote"
}
