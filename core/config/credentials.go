package config

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/credential"
)

// minCredential is the minimum length of a value that Credentials and Confidential return. Shorter ones are in
// many texts.
const minCredential = 8

// Credentials returns the credentials in the server's command line, environment, headers and URL, as
// package credential recognises them: nothing may publish them, also if the server repeats them. Unlike
// Secrets, they do not include ordinary settings. They are sorted, the longest first.
func (s Server) Credentials() []string {
	found := map[string]bool{}
	add := func(text string, spans []credential.Span) {
		for _, span := range spans {
			if value := text[span.From:span.To]; len(value) >= minCredential {
				found[value] = true
			}
		}
	}
	for _, named := range []map[string]Secret{s.Env, s.Headers} {
		for name, value := range named {
			add(value.Reveal(), credential.Find(name, value.Reveal()))
		}
	}
	for _, value := range s.Secrets {
		add(value.Reveal(), credential.Find("", value.Reveal()))
	}
	for i, spans := range credential.FindArgs(s.Args) {
		add(s.Args[i], spans)
	}
	add(s.OAuth.ClientSecret.Reveal(), []credential.Span{{To: len(s.OAuth.ClientSecret.Reveal())}})
	add(s.URL.Reveal(), credential.FindURL(s.URL.Reveal()))
	return slices.SortedFunc(maps.Keys(found), func(a, b string) int { return cmp.Or(len(b)-len(a), strings.Compare(a, b)) })
}

// Confidential returns the values that must not be stored where other users may read them: the credentials,
// Secrets, headers, and environment variables whose name suggests a secret, also by their words.
func (s *Server) Confidential() []string {
	values := s.Credentials()
	add := func(value Secret) {
		for _, v := range append(strings.Fields(value.Reveal()), value.Reveal()) {
			if len(v) >= minCredential {
				values = append(values, v)
			}
		}
	}
	for _, v := range s.Secrets {
		add(v)
	}
	for _, v := range s.Headers {
		add(v)
	}
	for name, v := range s.Env {
		if credential.Named(name) {
			add(v)
		}
	}
	return values
}
