package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// maxExpanded bounds what the references of one file may grow to together, in
// bytes: a megabyte of references to one large variable would be gigabytes.
const maxExpanded = 8 << 20

// maxPath is the most bytes of a value that may be a path.
const maxPath = 4 << 10

// An expander replaces the references in the string values of a file:
//
//	${VAR}, ${VAR:-default}            environment variable
//	${env:VAR}, ${env:VAR:-default}    the same
//	${input:ID}                        environment variable of inputVariable(ID)
//	${workspaceFolder}, ${workspaceFolderBasename}, ${userHome},
//	${pathSeparator}, ${/}             as in VS Code and Cursor
//
// The default is used if the variable is unset or empty, as in a shell. One pass
// is made: what a reference brings in is never expanded again, and a default
// holds no references. A dollar without a brace means itself.
type expander struct {
	getenv    func(string) (string, bool)
	workspace string
	home      string
	expanded  int // bytes so far
	// secrets are the values that came in from the environment since somebody last
	// emptied it, each once.
	secrets []Secret
}

// A referenceError says why a reference cannot be replaced. The message says
// what is wrong in terms of names from the file, never of values.
type referenceError struct {
	code    Code
	message string // follows "Server … "
	hint    string
}

// expand returns s with all references replaced, and those that cannot be.
func (e *expander) expand(s string) (string, []referenceError) {
	if !strings.Contains(s, "${") {
		return s, nil
	}
	var out strings.Builder
	var errs []referenceError
	for {
		before, rest, found := strings.Cut(s, "${")
		out.WriteString(before)
		if !found {
			break
		}
		body, after, closed := strings.Cut(rest, "}")
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
	scheme, rest, hasScheme := strings.Cut(name, ":")
	if hasScheme {
		switch scheme {
		case "env":
			return e.variable(rest, fallback, hasFallback, isEnvName)
		case "input":
			return e.input(rest, fallback, hasFallback)
		}
		return "", unknownReference(name)
	}
	switch name {
	case "workspaceFolder":
		return e.folder(name, e.workspace)
	case "workspaceFolderBasename":
		return e.folder(name, filepath.Base(e.workspace))
	case "userHome":
		return e.folder(name, e.home)
	case "pathSeparator", "/":
		return string(filepath.Separator), nil
	}
	return e.variable(name, fallback, hasFallback, isShellName)
}

func (e *expander) folder(name, path string) (string, *referenceError) {
	if path == "" {
		return "", &referenceError{code: CodeUnset, message: fmt.Sprintf("uses ${%s}, which is not known here", name)}
	}
	return path, nil
}

func (e *expander) variable(name, fallback string, hasFallback bool, valid func(string) bool) (string, *referenceError) {
	if !valid(name) {
		return "", unknownReference(name)
	}
	value, set := e.getenv(name)
	switch {
	case hasFallback && value == "":
		return fallback, nil
	case !set:
		return "", &referenceError{code: CodeUnset,
			message: fmt.Sprintf("uses variable %s, which is not set", name),
			hint:    fmt.Sprintf("set %s, or give a default: ${%s:-…}", name, name)}
	}
	e.hide(value)
	return value, nil
}

// hide remembers a value that must not be shown. Nobody knows which variables hold
// credentials, so all are taken to, but those that name a file or folder: what is
// wrong with it could not be told else.
func (e *expander) hide(value string) {
	if filepath.IsAbs(value) && len(value) <= maxPath {
		if _, err := os.Stat(value); err == nil {
			return
		}
	}
	if s := NewSecret(value); !s.IsZero() && !slices.Contains(e.secrets, s) {
		e.secrets = append(e.secrets, s)
	}
}

func (e *expander) input(id, fallback string, hasFallback bool) (string, *referenceError) {
	if id == "" {
		return "", unknownReference("input:")
	}
	name := inputVariable(id)
	value, set := e.getenv(name)
	switch {
	case hasFallback && value == "":
		return fallback, nil
	case !set:
		return "", &referenceError{code: CodeUnsetInput,
			message: fmt.Sprintf("uses input %s, but variable %s is not set", quote(id), name),
			hint:    fmt.Sprintf("mcptrack does not prompt; set %s", name)}
	}
	e.hide(value)
	return value, nil
}

// inputVariable names the environment variable that answers an input: its ID in
// upper case after MCPTRACK_INPUT_, with every character but the ASCII letters
// and digits made an underscore. IDs that differ only there share a variable.
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

// unknownReference shows the name, unless it may be a secret at the wrong place.
func unknownReference(name string) *referenceError {
	if tokenShaped(name) || len(name) > 64 {
		name = "…"
	}
	return &referenceError{code: CodeReference, message: fmt.Sprintf("has the unknown reference %s", quote("${"+name+"}")),
		hint: "known are ${VAR}, ${VAR:-default}, ${env:VAR}, ${input:ID}, ${workspaceFolder} and ${userHome}"}
}

// isShellName reports whether s may be written as ${s}: letters, digits and
// underscores, not beginning with a digit.
func isShellName(s string) bool {
	return s != "" && !('0' <= s[0] && s[0] <= '9') && strings.IndexFunc(s, func(r rune) bool {
		return !(r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9')
	}) < 0 && len(s) <= 256
}

// isEnvName is wider, for the names that Windows has: ${env:ProgramFiles(x86)}.
func isEnvName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(strings.ContainsRune("_.-()", r) || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9')
	}) < 0 && len(s) <= 256
}
