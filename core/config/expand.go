package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// maxExpanded bounds the bytes that all references of one file may expand to together: a
// megabyte of references to one large variable would be gigabytes.
const maxExpanded = 8 << 20

// maxPath bounds a value that is checked for being the path of an existing file, in bytes.
const maxPath = 4 << 10

// An expander replaces the references in the string values of a file:
//
//	${VAR}, ${VAR:-default}            environment variable
//	${env:VAR}, ${env:VAR:-default}    the same
//	${{ secrets.VAR }}                 the same, as in Continue
//	{env:VAR}, {file:PATH}             as in opencode, where braces is set
//	${input:ID}                        environment variable of inputVariable(ID)
//	${file:PATH}                       the only line of a file that only its owner may read
//	${keyring:NAME}                    a secret of the user's keyring
//	${workspaceFolder}, ${workspaceFolderBasename}, ${workspaceRoot}, ${cwd},
//	${userHome}, ${pathSeparator}, ${/}, ${CLAUDE_PROJECT_DIR}, ${CLAUDE_PLUGIN_ROOT}
//	                                   folders, as in VS Code, Cursor and Claude Code
//
// The default is used if the variable is unset or empty, as in a shell. There is one pass: the
// value of a reference is never expanded again, and a default contains no references. A dollar
// without a brace means itself.
type expander struct {
	getenv    func(string) (string, bool)
	keyring   func(string) (string, error)
	workspace string
	home      string
	plugin    string // ${CLAUDE_PLUGIN_ROOT}; "" where the file is not a plugin's
	braces    bool
	verbatim  bool // references are rewritten in our own form, not replaced
	expanded  int  // bytes expanded so far
	// secrets are the values that came from outside the file since the list was last emptied,
	// each once.
	secrets []Secret
	// files are the files that references named; their changes are watched.
	files []string
	// uses are what the references of the current entry take from outside the file; see Intent.
	uses     map[Use]bool
	project  string // see projectOf; "": not looked for yet
	insecure bool   // files are read whoever could change them
	// read are the files of ${file:PATH}, by path: a file is read once however often it is named.
	read map[string]secretFile
}

func newExpander(opts Options, workspace, file string) expander {
	e := expander{getenv: opts.getenv(), keyring: opts.Keyring, workspace: workspace, home: opts.userHome(), insecure: opts.Insecure}
	if file == "" {
		return e
	}
	dir := filepath.Dir(file)
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(workspace, dir)
	}
	if info, err := os.Stat(filepath.Join(dir, ".claude-plugin")); err == nil && info.IsDir() {
		e.plugin = dir
	}
	return e
}

// A referenceError says why a reference cannot be replaced. The message contains names from the
// file, never values.
type referenceError struct {
	code    Code
	message string // follows the server's or field's name in the sentence
	hint    string
}

// nextReference finds the first reference in s, and returns the text before and after it and
// between its braces. If closed is false, the reference has no closing brace and extends to the
// end of s.
func (e *expander) nextReference(s string) (before, body, after string, found, closed bool) {
	for i := range len(s) {
		switch rest := s[i:]; {
		case strings.HasPrefix(rest, "${{"):
			body, after, closed = strings.Cut(rest[3:], "}}")
			return s[:i], "secrets:" + strings.TrimSpace(body), after, true, closed
		case strings.HasPrefix(rest, "${"):
			body, after, closed = strings.Cut(rest[2:], "}")
			return s[:i], body, after, true, closed
		case e.braces && (strings.HasPrefix(rest, "{env:") || strings.HasPrefix(rest, "{file:")):
			body, after, closed = strings.Cut(rest[1:], "}")
			return s[:i], body, after, true, closed
		}
	}
	return s, "", "", false, false
}

// portable returns s with every reference in our own form, and none replaced.
func (e *expander) portable(s string) string {
	var out strings.Builder
	for {
		before, body, after, found, closed := e.nextReference(s)
		out.WriteString(before)
		if !found {
			return out.String()
		}
		if !closed {
			return out.String() + s[len(before):]
		}
		scheme, name, _ := strings.Cut(body, ":")
		switch scheme {
		case "secrets":
			_, body, _ = strings.Cut(name, ".")
		case "env":
			body = name
		}
		out.WriteString("${" + body + "}")
		s = after
	}
}

// refers reports whether s contains a reference.
func (e *expander) refers(s string) bool {
	_, _, _, found, _ := e.nextReference(s)
	return found
}

// expand returns s with its references replaced, and an error for each that cannot be.
func (e *expander) expand(s string) (string, []referenceError) {
	if e.verbatim {
		return e.portable(s), nil
	}
	var out strings.Builder
	var errs []referenceError
	for {
		before, body, after, found, closed := e.nextReference(s)
		out.WriteString(before)
		if !found {
			break
		}
		if !closed {
			errs = append(errs, referenceError{code: CodeReference, message: `has a "${" without "}"`,
				hint: `close the reference: "${NAME}"`})
			break
		}
		value, err := e.resolve(body)
		if err == nil && e.expanded+len(value) > maxExpanded {
			err = &referenceError{code: CodeTooLarge,
				message: fmt.Sprintf("has values that expand to more than %d MiB in all", maxExpanded>>20)}
		}
		if err != nil {
			errs = append(errs, *err)
		} else {
			e.expanded += len(value)
			out.WriteString(value)
		}
		s = after
	}
	return out.String(), errs
}

// resolve returns the value of one reference, given what is between its braces.
func (e *expander) resolve(body string) (string, *referenceError) {
	name, fallback, hasFallback := strings.Cut(body, ":-")
	if strings.Contains(body, "${") {
		return "", &referenceError{code: CodeReference, message: "has a reference inside a reference",
			hint: "defaults are plain text; references do not nest"}
	}
	if scheme, rest, ok := strings.Cut(name, ":"); ok {
		switch scheme {
		case "env":
			return e.variable(rest, fallback, hasFallback, isEnvName)
		case "secrets":
			_, key, dotted := strings.Cut(rest, ".")
			if !dotted {
				return "", unknownReference("{ " + rest + " }")
			}
			return e.variable(key, "", false, isEnvName)
		case "input":
			return e.input(rest, fallback, hasFallback)
		case "file":
			return e.file(strings.TrimPrefix(body, "file:"))
		case "keyring":
			return e.fromKeyring(rest)
		}
		return "", unknownReference(name)
	}
	switch name {
	case "workspaceFolder", "workspaceRoot", "cwd":
		return e.folder(name, e.workspace)
	case "workspaceFolderBasename":
		return e.folder(name, filepath.Base(e.workspace))
	case "userHome":
		return e.folder(name, e.home)
	case "pathSeparator", "/":
		return string(filepath.Separator), nil
	case "CLAUDE_PROJECT_DIR":
		return e.claude(name, e.workspace, "")
	case "CLAUDE_PLUGIN_ROOT":
		return e.claude(name, e.plugin, "Claude Code sets this variable for its plugins; set it to the folder of the plugin")
	}
	return e.variable(name, fallback, hasFallback, isShellName)
}

func (e *expander) folder(name, path string) (string, *referenceError) {
	if path == "" {
		return "", &referenceError{code: CodeUnset, message: fmt.Sprintf("uses ${%s}, which cannot be determined on this machine", name)}
	}
	return path, nil
}

// claude returns the value of a variable that Claude Code sets for the servers it starts.
func (e *expander) claude(name, path, hint string) (string, *referenceError) {
	e.use(Use{Kind: UseVariable, Name: name, Path: path})
	if value, set := e.getenv(name); set && value != "" {
		return value, nil
	}
	if path == "" {
		return "", &referenceError{code: CodeUnset, message: fmt.Sprintf("uses variable %s, which is not set", name), hint: hint}
	}
	return path, nil
}
