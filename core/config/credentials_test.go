package config

import (
	"slices"
	"strings"
	"testing"
)

func TestCredentials(t *testing.T) {
	t.Parallel()
	token := "ghp_" + strings.Repeat("a1B2", 9)
	s := Server{
		Program: Program{Env: map[string]Secret{"API_KEY": NewSecret("correct-horse-7"), "MODE": NewSecret("production"), "PIN_TOKEN": NewSecret("12")},
			Args: []string{"--verbose", "--token", "hunter2hunter2", "serve"}},
		Headers: map[string]Secret{"Authorization": NewSecret("Bearer " + token), "X-Region": NewSecret("eu-central-1")},
		URL:     NewSecret("https://bob:s3cretS3cret@api.example.com/mcp?region=europe-west"),
		Secrets: []Secret{NewSecret("/home/bob/projects"), NewSecret(token)},
		OAuth:   OAuth{ClientSecret: NewSecret("client-secret-1")},
	}
	got := s.Credentials()
	if want := []string{token, "correct-horse-7", "client-secret-1", "hunter2hunter2", "s3cretS3cret"}; !slices.Equal(sorted(got), sorted(want)) {
		t.Errorf("%q, want %q", got, want)
	}
	if !slices.IsSortedFunc(got, func(a, b string) int { return len(b) - len(a) }) {
		t.Errorf("%q is not sorted", got)
	}
}

func sorted(all []string) []string { return slices.Sorted(slices.Values(all)) }
