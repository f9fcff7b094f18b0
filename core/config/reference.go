package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/internal/writable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// file returns the only line of a file, for ${file:PATH}. A relative path is resolved against
// the workspace. The content always counts as a secret.
func (e *expander) file(name string) (string, *referenceError) {
	fail := func(what, hint string) (string, *referenceError) {
		return "", &referenceError{code: CodeFileReference, message: "uses a ${file:…} that " + what, hint: hint}
	}
	if credential.Token(name) {
		return "", secretAsName()
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
			return fail(fmt.Sprintf("is one more than the %d files that a config may name", maxFiles), "")
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

// A secretFile is what is known of the file of a ${file:PATH}.
type secretFile struct{ value, problem, hint string }

func (e *expander) readSecret(path string) secretFile {
	if problem := e.refused(path); problem != "" {
		return secretFile{problem: problem, hint: refusedHint}
	}
	value, err := secretfile.Read(path)
	if refused, ok := errors.AsType[*secretfile.RefusedError](err); ok {
		return secretFile{problem: "is refused: " + refused.Problem, hint: "a file for one secret has one line and mode 0600; relative paths start at ${workspaceFolder}"}
	}
	if err != nil {
		return secretFile{problem: "cannot be read"}
	}
	return secretFile{value: value}
}

// refused returns why a file is not read that others could change; "": it may be read. The path is
// not in it, as a part of it may come from a variable.
func (e *expander) refused(path string) string {
	if e.insecure {
		return ""
	}
	if network(path) {
		return "is refused: it names another machine"
	}
	if found, ok := errors.AsType[*writable.Error](writable.ByOthers(path, "")); ok {
		return "is refused: the file or its folder " + found.Problem
	}
	return ""
}

const refusedHint = "only you and root may be able to write to the file and its folder: chmod go-w"

// network reports whether looking at a path makes Windows log in to another machine.
func network(path string) bool {
	return runtime.GOOS == "windows" && strings.HasPrefix(filepath.ToSlash(path), "//")
}

// refersTo notes a file or folder whose changes have to be watched.
func (e *expander) refersTo(path string) {
	if len(e.files) < maxFiles {
		e.files = append(e.files, path)
	}
}

// maxFiles bounds the files that one config can make us watch.
const maxFiles = 256

// fromKeyring returns a secret for ${keyring:NAME}.
func (e *expander) fromKeyring(name string) (string, *referenceError) {
	if credential.Certain(name) {
		return "", secretAsName()
	}
	if name == "" || len(name) > 256 {
		return "", unknownReference("keyring:" + name)
	}
	e.use(Use{Kind: UseKeyring, Name: name})
	if e.keyring == nil {
		return "", &referenceError{code: CodeKeyring, message: fmt.Sprintf("uses %s from the keyring, which is not read", quote(name))}
	}
	value, err := e.keyring(name)
	if (err != nil || value == "") && credential.Doubtful(name) {
		return "", secretAsName()
	}
	if err != nil || value == "" {
		return "", &referenceError{code: CodeKeyring, message: fmt.Sprintf("uses %s from the keyring, which has no such entry", quote(name)),
			hint: fmt.Sprintf("store it under service mcptrack and account %s", quote(name))}
	}
	if strings.ContainsRune(value, 0) {
		return "", &referenceError{code: CodeKeyring, message: fmt.Sprintf("uses %s from the keyring, whose value is not text", quote(name))}
	}
	e.hideAlways(value)
	return value, nil
}
