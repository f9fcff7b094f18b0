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
// Load does not validate with it: a validator reports which keyword failed at which
// value, while a helpful message names what the author of the file has to change.
func Schema() []byte { return bytes.Clone(schema) }
