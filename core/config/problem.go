package config

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
	"strings"
)

// Severity reports whether a problem prevents the file from being used.
type Severity string

// The severities, spelled as in all output.
const (
	SeverityError   Severity = "error"
	SeverityWarning Severity = "warning"
)

// A Problem is an error or warning about a file, with the position of the invalid token.
//
// No field contains a value from a variable or an envFile, or a value that may be a secret. Text
// from the file is truncated and contains no control characters.
type Problem struct {
	Severity Severity `json:"severity"`
	// File is the path as passed to Load or Parse.
	File string `json:"file,omitempty"`
	// Line and Column are 1-based. Columns count Unicode code points, excluding a byte order mark.
	// Problems that concern the whole file, such as a missing file, are at 1:1.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Path is the JSON pointer (RFC 6901) to the invalid value, or to the object in which a key is
	// missing; empty for the whole document.
	Path    string `json:"path"`
	Code    Code   `json:"code"`
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// Code identifies a kind of problem. Codes are stable, so that scripts can rely on them.
type Code string

// The problem codes.
const (
	// Problems with the whole file.
	CodeNotFound        Code = "not_found"
	CodeUnreadable      Code = "unreadable"
	CodeNotRegular      Code = "not_regular"
	CodeTooLarge        Code = "too_large"
	CodeTooDeep         Code = "too_deep"
	CodeTooManyProblems Code = "too_many_problems"
	CodeEncoding        Code = "invalid_encoding"
	CodeSyntax          Code = "syntax"
	CodeInsecure        Code = "insecure_permissions" // a warning if Options.Insecure is set

	// Problems with the structure.
	CodeType         Code = "invalid_type"
	CodeValue        Code = "invalid_value"
	CodeMissing      Code = "missing_key"
	CodeConflict     Code = "conflict"
	CodeID           Code = "invalid_id"
	CodeDuplicateID  Code = "duplicate_id"
	CodeDuplicateKey Code = "duplicate_key"
	CodeUnknownKey   Code = "unknown_key"     // always a warning
	CodeIneffective  Code = "ineffective_key" // always a warning
	CodeUnsupported  Code = "unsupported"     // always a warning
	CodeForeign      Code = "foreign_value"   // a value of another program under a name that mcptrack also uses; always a warning

	// Invalid values.
	CodeDuration  Code = "invalid_duration"
	CodeRange     Code = "out_of_range"
	CodeURL       Code = "invalid_url"
	CodeGlob      Code = "invalid_glob"
	CodeHeader    Code = "invalid_header"
	CodeEnv       Code = "invalid_env"
	CodeReference Code = "invalid_reference"

	// Something is missing on this machine: always warnings, and the server is Unconfigured.
	CodeUnset           Code = "unset_variable"
	CodeUnsetInput      Code = "unset_input"
	CodeFileReference   Code = "invalid_file_reference"
	CodeKeyring         Code = "not_in_keyring"
	CodeEnvFile         Code = "invalid_env_file"
	CodeNoDirectory     Code = "directory_not_found"
	CodeCommandNotFound Code = "command_not_found"

	// Advice: always warnings.
	CodeSecret        Code = "plaintext_secret"
	CodeInsecureURL   Code = "insecure_url"
	CodeTransport     Code = "transport_mismatch"
	CodeShellLine     Code = "shell_line"
	CodeBareVariable  Code = "bare_variable"
	CodeDockerNoStdin Code = "docker_without_stdin"
)

// String formats the problem as FILE:LINE:COLUMN: SEVERITY: MESSAGE, which editors and terminals
// turn into a link. It omits the hint.
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s: %s", p.File, p.Line, p.Column, p.Severity, p.Message)
}

// Problems holds all problems in one file, sorted by position.
type Problems []Problem

// Errors returns the number of problems that prevent the file from being used.
func (ps Problems) Errors() int { return ps.count(SeverityError) }

// Warnings returns the number of warnings.
func (ps Problems) Warnings() int { return ps.count(SeverityWarning) }

func (ps Problems) count(s Severity) int {
	n := 0
	for i := range ps {
		if ps[i].Severity == s {
			n++
		}
	}
	return n
}

// Err returns ps if it contains an error, and nil otherwise.
func (ps Problems) Err() error {
	if ps.Errors() == 0 {
		return nil
	}
	return ps
}

// Has reports whether any problem has the given code.
func (ps Problems) Has(code Code) bool {
	return slices.ContainsFunc(ps, func(p Problem) bool { return p.Code == code })
}

// Error returns a single line: the first error, or the first warning if there is no error, followed
// by the number of further errors.
func (ps Problems) Error() string {
	if len(ps) == 0 {
		return "no problems"
	}
	first := max(0, slices.IndexFunc(ps, func(p Problem) bool { return p.Severity == SeverityError }))
	text := ps[first].String()
	if more := ps.Errors() - 1; more == 1 {
		text += " (and 1 more error)"
	} else if more > 1 {
		text += fmt.Sprintf(" (and %d more errors)", more)
	}
	return text
}

// errorIn returns the message of the first error at a path or below it, or "".
func (ps Problems) errorIn(path string) string {
	for _, p := range ps {
		if p.Severity == SeverityError && p.in(path) {
			return p.Message
		}
	}
	return ""
}

// in reports whether the problem is at a path or below it.
func (p Problem) in(path string) bool { return p.Path == path || strings.HasPrefix(p.Path, path+"/") }

func (ps Problems) sort() {
	sort.SliceStable(ps, func(i, j int) bool {
		return cmp.Or(cmp.Compare(ps[i].Line, ps[j].Line), cmp.Compare(ps[i].Column, ps[j].Column)) < 0
	})
}
