package config

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/secretfile"
	"github.com/mcptrack/mcptrack/core/writable"
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
	if hint := e.refused(path); hint != "" {
		e.use(e.fileUse(name, path, nil))
		return fail("is refused: others can change the file or its folder", hint)
	}
	value, err := secretfile.Read(path)
	e.use(e.fileUse(name, path, []byte(value)))
	if refused, ok := errors.AsType[*secretfile.RefusedError](err); ok {
		return fail("is refused: "+refused.Problem, "a file for one secret has one line and mode 0600; relative paths start at ${workspaceFolder}")
	}
	if err != nil {
		return fail("cannot be read", "")
	}
	e.hideAlways(value)
	return value, nil
}

// refused returns what to do about a file that others could change; "": nothing, it may be read.
func (e *expander) refused(path string) string {
	if e.insecure {
		return ""
	}
	if found, ok := errors.AsType[*writable.Error](writable.ByOthers(path, "")); ok {
		return found.Error() + "; " + found.Hint
	}
	return ""
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
