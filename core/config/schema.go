package config

import (
	"bytes"
	_ "embed"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of the file, for editors. It describes the
// form of the plain JSON: types, required keys, and keys that exclude each other. What it
// cannot express (duplicates, references, URLs, globs) only Load checks. Tests make sure that
// both agree on the form.
//
// Load does not validate with it: a validator reports which keyword failed at which value, but
// the author of the file needs to know what to change.
func Schema() []byte { return bytes.Clone(schema) }
