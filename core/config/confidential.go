package config

import (
	"net/url"
	"strings"

	"github.com/mcptrack/mcptrack/core/config/credential"
)

// minConfidential is the length below which a value is not treated as confidential: a short one
// occurs in ordinary text by chance.
const minConfidential = 8

// Confidential returns the values of the server that must not be stored where others may read
// them: the values of its Secrets and headers, secrets in its URL, and the values in its
// environment whose name or form is that of a secret.
func (s *Server) Confidential() []string {
	var values []string
	add := func(value string) {
		for _, v := range append(strings.Fields(value), value) {
			if len(v) >= minConfidential {
				values = append(values, v)
			}
		}
	}
	for _, v := range s.Secrets {
		add(v.Reveal())
	}
	for _, v := range s.Headers {
		add(v.Reveal())
	}
	for name, v := range s.Env {
		if value := v.Reveal(); credential.Named(name) || len(credential.Find(name, value)) > 0 {
			add(value)
		}
	}
	if u, err := url.Parse(s.URL.Reveal()); err == nil {
		if password, ok := u.User.Password(); ok {
			add(password)
		}
		for name, of := range u.Query() {
			for _, v := range of {
				if credential.Named(name) || credential.Token(v) {
					add(v)
				}
			}
		}
	}
	return values
}
