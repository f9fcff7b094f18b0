package config

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
)

// An envFile is a file of variables in the dotenv form, parsed once however many
// servers name it.
//
// It is parsed here rather than by joho/godotenv because that expands $NAME and ${NAME} inside
// values, which would change passwords with a dollar in them, and has no limit of size. The
// form is the one that VS Code and docker compose agree on: NAME=VALUE lines, blank lines, #
// comments (at the start of a line, or after a blank), an optional "export ", '…' taken
// literally, and "…" with \n \r \t \" \\ \$. Nothing is expanded. If a name is given twice, the
// last value counts.
type envFile struct {
	values map[string]string
	size   int
	text   string // what the file has
	err    string // what is wrong with the file, never quoting its content
	hint   string
}

// envFile returns the variables of the file that the entry's "envFile" names. A relative path
// is resolved against the workspace.
func (e programKeys) envFile(program bool) map[string]Secret {
	value, f, ok := e.text("envFile")
	if !ok || !program {
		return nil
	}
	bad := func(what, hint string) {
		e.lacks(f.value, f.path, CodeEnvFile, fmt.Sprintf(`"envFile" %s`, what), hint)
	}
	if value == "" {
		bad("is empty", "remove it, or name a file")
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
			hint = "relative paths start at ${workspaceFolder}, by default the working directory"
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
	data, problem := readFile(path, MaxFileSize)
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

// parseEnv returns the variables, or the number of the first invalid line and what is wrong
// with it.
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

// envValue unquotes one value and drops a comment after it. what says why the value is invalid.
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
	return "", "has a quote that is not closed"
}
