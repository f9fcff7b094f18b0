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

// CommandLine returns the program with its arguments in one line, as an operator reads it
// before it is started: with "[secret]" for the values of Secrets and for arguments that
// are secrets in plain text, quoted where an argument would not be seen as one. It is ""
// for servers that are not started.
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
	// Of two that begin alike the first would win, and leave the rest of the other.
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
