package config

import (
	"fmt"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/config/tree"
)

// useVariable is the advice for every secret written into the file itself.
const useVariable = "put it into an environment variable and write ${NAME}"

// warnSecret warns of a secret written into the file. The value is never shown.
func (e *entry) warnSecret(offset int, path pointer, where string) {
	e.warnAt(offset, path, CodeSecret, fmt.Sprintf("%s has a secret in plain text in %s", e.label, where), useVariable)
}

// plaintext warns if a named value (a header, an environment variable) contains a secret. It
// looks at the text before expansion: the value of a reference is not in the file.
func (e *entry) plaintext(name string, v *tree.Node, path pointer, where string) {
	if len(credential.Find(name, v.Text)) > 0 {
		e.warnSecret(v.Offset, path, where)
	}
}

// secretArgs warns of secrets in the arguments, before expansion.
func (e programKeys) secretArgs(args []*tree.Node) {
	for i, spans := range credential.FindArgs(texts(args)) {
		if len(spans) > 0 {
			e.warnSecret(args[i].Offset, e.path.key("args").index(i), `"args"`)
		}
	}
}

// texts returns the texts of strings.
func texts(nodes []*tree.Node) []string {
	out := make([]string, len(nodes))
	for i, n := range nodes {
		out[i] = n.Text
	}
	return out
}

// secretURL warns of secrets in a URL, before expansion.
func (e remoteKeys) secretURL(raw string, f field) {
	if len(credential.FindURL(raw)) > 0 {
		e.warnSecret(f.value.Offset, f.path, quote(f.name))
	}
}
