package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/internal/writable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// maxExpanded limits the total size, in bytes, of all expanded references in one file. Without it,
// a megabyte of references to one large variable would expand to gigabytes.
const maxExpanded = 8 << 20

// maxPath limits the length in bytes of a value that hide checks for being the path of an existing
// file.
const maxPath = 4 << 10

// An expander expands the references in the string values of a file:
//
//	${VAR}, ${VAR:-default}            environment variable
//	${env:VAR}, ${env:VAR:-default}    the same
//	${{ secrets.VAR }}                 the same, as used by Continue
//	{env:VAR}, {file:PATH}             as used by opencode, if braces is set
//	${input:ID}                        environment variable inputVariable(ID)
//	${file:PATH}                       content of a one-line file that only its owner can read
//	${keyring:NAME}                    a secret in the user's keyring
//	${workspaceFolder}, ${workspaceFolderBasename}, ${workspaceRoot}, ${cwd},
//	${userHome}, ${pathSeparator}, ${/}, ${CLAUDE_PROJECT_DIR}, ${CLAUDE_PLUGIN_ROOT}
//	                                   folders and separators, as used by VS Code, Cursor and Claude Code
//
// As in a shell, the default is used if the variable is unset or empty. The value of a reference is
// not expanded again, and a default cannot contain references. A dollar sign that is not followed by
// a brace is literal.
type expander struct {
	getenv    func(string) (string, bool)
	keyring   func(string) (string, error)
	workspace string
	home      string
	plugin    string // value of ${CLAUDE_PLUGIN_ROOT}; empty if the file does not belong to a plugin
	braces    bool
	verbatim  bool // rewrite references in mcptrack's own form instead of expanding them
	expanded  int  // total size of the expanded references so far, in bytes
	// secrets holds the values from outside the file that were recorded after the list was last
	// cleared, without duplicates.
	secrets  []Secret
	files    []string              // files named in references, to be watched for changes
	uses     map[Use]bool          // what the current entry refers to outside the file; see Intent
	project  string                // result of projectOf; empty if not determined yet
	insecure bool                  // read files even if other users could change them
	read     map[string]secretFile // files read for ${file:PATH}, by path; each is read once
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

// A referenceError explains why a reference cannot be expanded. It contains names from the file,
// never values.
type referenceError struct {
	code    Code
	message string // a predicate, whose subject is the name of the key
	hint    string
}

func cannotReplace(code Code, message, hint string) (string, *referenceError) {
	return "", &referenceError{code, message, hint}
}

// nextReference finds the first reference in s. It returns the text before the reference, between
// its braces, and after it. An unclosed reference extends to the end of s.
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

// portable returns s with every reference rewritten in mcptrack's own form.
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

// expand returns s with its references expanded, and an error for each reference that cannot be
// expanded.
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
			errs = append(errs, referenceError{CodeReference, `has a "${" without "}"`, `close the reference: "${NAME}"`})
			break
		}
		value, err := e.resolve(body)
		if err == nil && e.expanded+len(value) > maxExpanded {
			_, err = cannotReplace(CodeTooLarge, fmt.Sprintf("has values that expand to more than %d MiB in all", maxExpanded>>20), "")
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

// resolve returns the value of the reference with the given text between its braces.
func (e *expander) resolve(body string) (string, *referenceError) {
	name, fallback, hasFallback := strings.Cut(body, ":-")
	if strings.Contains(body, "${") {
		return cannotReplace(CodeReference, "has a reference inside a reference", "a default must be plain text; references cannot be nested")
	}
	if scheme, rest, ok := strings.Cut(name, ":"); ok {
		switch scheme {
		case "env":
			return e.variable(rest, fallback, hasFallback, isEnvName)
		case "secrets":
			_, key, dotted := strings.Cut(rest, ".")
			if !dotted {
				return unknownReference("{ " + rest + " }")
			}
			return e.variable(key, "", false, isEnvName)
		case "input":
			return e.input(rest, fallback, hasFallback)
		case "file":
			return e.file(strings.TrimPrefix(body, "file:"))
		case "keyring":
			return e.fromKeyring(rest)
		}
		return unknownReference(name)
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
		return cannotReplace(CodeUnset, fmt.Sprintf("uses ${%s}, which cannot be determined on this machine", name), "")
	}
	return path, nil
}

// claude returns the value of a variable that Claude Code sets for its servers. path is the default
// value.
func (e *expander) claude(name, path, hint string) (string, *referenceError) {
	e.use(Use{Kind: UseVariable, Name: name, Path: path})
	if value, set := e.getenv(name); set && value != "" {
		return value, nil
	}
	if path == "" {
		return cannotReplace(CodeUnset, fmt.Sprintf("uses variable %s, which is not set", name), hint)
	}
	return path, nil
}

// file returns the content of a file that must contain a single line, for ${file:PATH}. A relative
// path is resolved against the workspace. The content is always treated as a secret.
func (e *expander) file(name string) (string, *referenceError) {
	fail := func(what, hint string) (string, *referenceError) {
		return cannotReplace(CodeFileReference, "uses a ${file:…} that "+what, hint)
	}
	if credential.Token(name) {
		return secretAsName()
	}
	path := strings.TrimSpace(name)
	if path == "" {
		return fail("names no file", "write ${file:PATH}")
	}
	if rest, ok := strings.CutPrefix(path, "~/"); ok && e.home != "" {
		path = filepath.Join(e.home, rest)
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(e.workspace, path)
	}
	e.refersTo(path)
	f, known := e.read[path]
	if !known {
		if len(e.read) == maxFiles {
			return fail(fmt.Sprintf("exceeds the limit of %d files per config", maxFiles), "")
		}
		if e.read == nil {
			e.read = map[string]secretFile{}
		}
		f = e.readSecret(path)
		e.read[path] = f
	}
	e.use(e.fileUse(name, path, f.value))
	if f.problem != "" {
		return fail(f.problem, f.hint)
	}
	e.hideAlways(f.value)
	return f.value, nil
}

// A secretFile holds the result of reading the file for a ${file:PATH} reference.
type secretFile struct{ value, problem, hint string }

func (e *expander) readSecret(path string) secretFile {
	if problem := e.refused(path); problem != "" {
		return secretFile{problem: problem, hint: refusedHint}
	}
	value, err := secretfile.Read(path)
	if refused, ok := errors.AsType[*secretfile.RefusedError](err); ok {
		return secretFile{problem: "is refused: " + refused.Problem, hint: "a secret file must contain one line and have mode 0600; relative paths are resolved against ${workspaceFolder}"}
	}
	if err != nil {
		return secretFile{problem: "cannot be read"}
	}
	return secretFile{value: value}
}

// refused returns the reason why a file must not be read because other users could change it, or an
// empty string if there is none. The reason does not include the path, part of which may come from
// a variable.
func (e *expander) refused(path string) string {
	if e.insecure {
		return ""
	}
	if network(path) {
		return "is refused: it refers to another machine"
	}
	if found, ok := errors.AsType[*writable.Error](writable.ByOthers(path, "")); ok {
		return "is refused: the file or its folder " + found.Problem
	}
	return ""
}

const refusedHint = "only you and root may be able to write to the file and its folder: chmod go-w"

// network reports whether opening a path would cause Windows to log in to another machine.
func network(path string) bool {
	return runtime.GOOS == "windows" && strings.HasPrefix(filepath.ToSlash(path), "//")
}

// refersTo records a file or folder whose changes must be watched.
func (e *expander) refersTo(path string) {
	if len(e.files) < maxFiles {
		e.files = append(e.files, path)
	}
}

// maxFiles limits the number of files that are watched for one config.
const maxFiles = 256

// fromKeyring returns the secret for ${keyring:NAME}.
func (e *expander) fromKeyring(name string) (string, *referenceError) {
	if credential.Certain(name) {
		return secretAsName()
	}
	if name == "" || len(name) > 256 {
		return unknownReference("keyring:" + name)
	}
	e.use(Use{Kind: UseKeyring, Name: name})
	uses := fmt.Sprintf("uses %s from the keyring, ", quote(name))
	if e.keyring == nil {
		return cannotReplace(CodeKeyring, uses+"which is not read", "")
	}
	value, err := e.keyring(name)
	switch missing := err != nil || value == ""; {
	case missing && credential.Doubtful(name):
		return secretAsName()
	case missing:
		return cannotReplace(CodeKeyring, uses+"which does not contain this entry", fmt.Sprintf("store it with service mcptrack and account %s", quote(name)))
	case strings.ContainsRune(value, 0):
		return cannotReplace(CodeKeyring, uses+"whose value is not text", "")
	}
	e.hideAlways(value)
	return value, nil
}

func (e *expander) variable(name, fallback string, hasFallback bool, valid func(string) bool) (string, *referenceError) {
	switch {
	case credential.Certain(name):
		return secretAsName()
	case !valid(name):
		return unknownReference(name)
	}
	return e.lookUp(name, name, fallback, hasFallback, referenceError{CodeUnset,
		fmt.Sprintf("uses variable %s, which is not set", name), fmt.Sprintf("set %s, or specify a default: ${%s:-…}", name, name)})
}

func (e *expander) input(id, fallback string, hasFallback bool) (string, *referenceError) {
	switch {
	case id == "":
		return unknownReference("input:")
	case credential.Certain(id):
		return secretAsName()
	}
	name := inputVariable(id)
	return e.lookUp(name, id, fallback, hasFallback, referenceError{CodeUnsetInput,
		fmt.Sprintf("uses input %s, but variable %s is not set", quote(id), name), "mcptrack does not prompt; set " + name})
}

// lookUp returns the value of the variable name. written is the reference as written in the file,
// and unset is the error to return if the variable is not set.
func (e *expander) lookUp(name, written, fallback string, hasFallback bool, unset referenceError) (string, *referenceError) {
	e.use(Use{Kind: UseVariable, Name: name})
	value, set := e.getenv(name)
	switch {
	case hasFallback && value == "":
		return fallback, nil
	case !set && credential.Doubtful(written):
		return cannotReplace(CodeUnset, "uses a variable that is not set and whose name starts like a secret, so it is not shown here",
			"store the secret in a variable and write its name: ${NAME}")
	case !set:
		return "", &unset
	}
	e.hide(value)
	return value, nil
}

// byName returns the value of a variable whose name is written in the file without "${…}".
func (e *expander) byName(name string) (string, *referenceError) {
	value, err := e.variable(name, "", false, isEnvName)
	switch {
	case err == nil:
	case err.code == CodeReference:
		err.message, err.hint = "is not the name of a variable", "write only the name, such as API_TOKEN"
	case err.code == CodeUnset && !credential.Doubtful(name):
		err.hint = "set " + name
	default:
		err.hint = "store the secret in a variable and write its name"
	}
	return value, err
}

// hide records a value that must not be displayed, because any variable may contain a credential. A
// value that is the path of an existing file or folder is not recorded, so that messages can
// display it.
func (e *expander) hide(value string) {
	if filepath.IsAbs(value) && len(value) <= maxPath {
		if _, err := os.Stat(value); err == nil {
			return
		}
	}
	e.hideAlways(value)
}

func (e *expander) hideAlways(value string) {
	if s := NewSecret(value); !s.IsZero() && !slices.Contains(e.secrets, s) {
		e.secrets = append(e.secrets, s)
	}
}

// inputVariable returns the name of the environment variable that holds the value of an input:
// MCPTRACK_INPUT_ followed by the ID in upper case, in which every character that is not an ASCII
// letter or digit is replaced by an underscore. IDs that differ only in such characters share a
// variable.
func inputVariable(id string) string {
	return "MCPTRACK_INPUT_" + strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z':
			return r - 'a' + 'A'
		case 'A' <= r && r <= 'Z', '0' <= r && r <= '9':
			return r
		}
		return '_'
	}, id[:min(len(id), 128)])
}

// unknownReference returns the error for an unknown kind of reference. It includes the name, unless
// the name may be a misplaced secret.
func unknownReference(name string) (string, *referenceError) {
	bare := name
	if _, after, ok := strings.Cut(name, ":"); ok {
		bare = after
	}
	if credential.Doubtful(name) || credential.Doubtful(bare) || len(name) > 64 {
		name = "…"
	}
	return cannotReplace(CodeReference, fmt.Sprintf("has the unknown reference %s", quote("${"+name+"}")),
		"use ${VAR}, ${VAR:-default}, ${env:VAR}, ${input:ID}, ${file:PATH}, ${keyring:NAME}, ${workspaceFolder} or ${userHome}")
}

// secretAsName returns the error for a reference that contains a token instead of a name.
func secretAsName() (string, *referenceError) {
	return cannotReplace(CodeSecret, "has a secret in place of a variable name",
		"store the secret in a variable and write its name: ${NAME}")
}

// isShellName reports whether s may be written as ${s}.
func isShellName(s string) bool {
	return len(s) <= 256 && alphanumeric(s, "_") && (s[0] < '0' || s[0] > '9')
}

// isEnvName reports whether s may be written as ${env:s}. It also allows names used on Windows:
// ${env:ProgramFiles(x86)}.
func isEnvName(s string) bool { return len(s) <= 256 && alphanumeric(s, "_.-()") }

// alphanumeric reports whether s is non-empty and consists only of ASCII letters, digits and the
// characters in other.
func alphanumeric(s, other string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(other, r))
	}) < 0
}
