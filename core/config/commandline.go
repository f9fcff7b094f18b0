package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/credential"
	"github.com/mcptrack/mcptrack/core/printable"
)

// maxCommandLine is the longest command line that is shown, in runes.
const maxCommandLine = 4096

// CommandLine returns the program with its arguments in one line, for an operator to check
// before it is started. The values of Secrets, and credentials written into the arguments,
// appear as "[secret]"; arguments with spaces or the like are quoted. It is "" for servers
// without a command.
func (s Server) CommandLine() string {
	if s.Command == "" {
		return ""
	}
	var values []string
	for _, secret := range s.Secrets {
		if v := secret.Reveal(); len(v) >= 6 { // shorter ones match by chance
			values = append(values, v)
		}
	}
	// Longest first: if one value is a prefix of another, replacing it first would leave the
	// rest of the longer one visible.
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) })
	var pairs []string
	for _, v := range values {
		pairs = append(pairs, v, redacted)
	}
	hide := strings.NewReplacer(pairs...)
	words := []string{hide.Replace(s.Command)}
	for i, spans := range credential.FindArgs(s.Args) {
		word, at := "", 0
		for _, secret := range spans {
			word += hide.Replace(s.Args[i][at:secret.From]) + redacted
			at = secret.To
		}
		words = append(words, word+hide.Replace(s.Args[i][at:]))
	}
	for i, w := range words {
		if w == "" || strings.ContainsAny(w, " \"'\\") || printable.Line(w, 0) != w {
			words[i] = strconv.Quote(w)
		}
	}
	return printable.Line(strings.Join(words, " "), maxCommandLine)
}
