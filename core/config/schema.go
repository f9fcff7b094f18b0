package config

import (
	"bytes"
	_ "embed"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of the file, for editors. It
// describes the form of the plain JSON: types, required keys, what excludes each
// other. What it cannot say (duplicates, references, URLs, globs) only Load
// checks. That both agree on the form is held by tests.
//
// Load does not validate with it: a validator tells which keyword failed at which
// value, and messages that help have to be told from the file's side.
func Schema() []byte { return bytes.Clone(schema) }
