package config

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/credential"
)

func (e *expander) variable(name, fallback string, hasFallback bool, valid func(string) bool) (string, *referenceError) {
	if credential.Certain(name) {
		return "", secretAsName()
	}
	if !valid(name) {
		return "", unknownReference(name)
	}
	e.use(Use{Kind: UseVariable, Name: name})
	value, set := e.getenv(name)
	switch {
	case hasFallback && value == "":
		return fallback, nil
	case !set && credential.Doubtful(name):
		return "", unsetDoubtful()
	case !set:
		return "", &referenceError{code: CodeUnset,
			message: fmt.Sprintf("uses variable %s, which is not set", name),
			hint:    fmt.Sprintf("set %s, or give a default: ${%s:-…}", name, name)}
	}
	e.hide(value)
	return value, nil
}

// byName returns the value of a variable that is named without "${…}".
func (e *expander) byName(name string) (string, *referenceError) {
	value, err := e.variable(name, "", false, isEnvName)
	switch {
	case err == nil:
	case err.code == CodeReference:
		err.message, err.hint = "is not the name of a variable", "write the name alone, such as API_TOKEN"
	case err.code == CodeUnset && !credential.Doubtful(name):
		err.hint = "set " + name
	default:
		err.hint = "put the secret into a variable and write its name"
	}
	return value, err
}

// hide records a value that must not be shown. Any variable may be a credential, so all are
// recorded, except those whose value is the path of an existing file or folder: a message about
// that file could not be understood otherwise.
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

func (e *expander) input(id, fallback string, hasFallback bool) (string, *referenceError) {
	if id == "" {
		return "", unknownReference("input:")
	}
	if credential.Certain(id) {
		return "", secretAsName()
	}
	name := inputVariable(id)
	e.use(Use{Kind: UseVariable, Name: name})
	value, set := e.getenv(name)
	switch {
	case hasFallback && value == "":
		return fallback, nil
	case !set && credential.Doubtful(id):
		return "", unsetDoubtful()
	case !set:
		return "", &referenceError{code: CodeUnsetInput,
			message: fmt.Sprintf("uses input %s, but variable %s is not set", quote(id), name),
			hint:    fmt.Sprintf("mcptrack does not prompt; set %s", name)}
	}
	e.hide(value)
	return value, nil
}

// inputVariable names the environment variable that holds the value of an input:
// MCPTRACK_INPUT_ and the input's ID in upper case, with an underscore for every character that
// is not an ASCII letter or digit. IDs that differ only in such characters share a variable.
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

// unknownReference returns the error for an unknown kind of reference. It shows the name,
// unless that may be a secret in the wrong place.
func unknownReference(name string) *referenceError {
	bare := name
	if _, after, ok := strings.Cut(name, ":"); ok {
		bare = after
	}
	if credential.Doubtful(name) || credential.Doubtful(bare) || len(name) > 64 {
		name = "…"
	}
	return &referenceError{code: CodeReference, message: fmt.Sprintf("has the unknown reference %s", quote("${"+name+"}")),
		hint: "use ${VAR}, ${VAR:-default}, ${env:VAR}, ${input:ID}, ${file:PATH}, ${keyring:NAME}, ${workspaceFolder} or ${userHome}"}
}

// secretAsName is the error for a token where the name of a variable belongs.
func secretAsName() *referenceError {
	return &referenceError{code: CodeSecret, message: "has a secret where the name of a variable belongs",
		hint: "put the secret into a variable and write its name: ${NAME}"}
}

// unsetDoubtful is the error for a variable that is not set and whose name may be a
// token.
func unsetDoubtful() *referenceError {
	return &referenceError{code: CodeUnset, message: "uses a variable that is not set and whose name begins like a secret, so that it is not shown here",
		hint: "put the secret into a variable and write its name: ${NAME}"}
}

// isShellName reports whether s may be written as ${s}: letters, digits and
// underscores, not beginning with a digit.
func isShellName(s string) bool {
	return s != "" && !('0' <= s[0] && s[0] <= '9') && strings.IndexFunc(s, func(r rune) bool {
		return !(r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9')
	}) < 0 && len(s) <= 256
}

// isEnvName also allows the names that Windows has: ${env:ProgramFiles(x86)}.
func isEnvName(s string) bool {
	return s != "" && strings.IndexFunc(s, func(r rune) bool {
		return !(strings.ContainsRune("_.-()", r) || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9')
	}) < 0 && len(s) <= 256
}
