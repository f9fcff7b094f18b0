package config

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseEnv(t *testing.T) {
	got, _, what := parseEnv("\ufeff# comment\r\nA=1\r\n\n export B = two words # comment\nC='single $X ${Y} \\n' # c\n" +
		"D=\"a\\tb\\n\\\"q\\\" \\\\ \\$ \\x\"\nE=\nF=a#b\nG=\"\"\nA=last\nH=x=y\nI=#c")
	want := map[string]string{"A": "last", "B": "two words", "C": `single $X ${Y} \n`, "D": "a\tb\n\"q\" \\ $ \\x", "E": "", "F": "a#b", "G": "", "H": "x=y", "I": ""}
	if diff := cmp.Diff(want, got); diff != "" || what != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func TestEnvFileProblems(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"A=1\nhunter2":       `"envFile" line 2 is not NAME=VALUE`,
		"=hunter2":           `"envFile" line 1 is not NAME=VALUE`,
		"A B=hunter2":        `"envFile" line 1 is not NAME=VALUE`,
		"A=\"hunter2":        `"envFile" line 1 has an unclosed quote`,
		"\nA='hunter2' more": `"envFile" line 2 has text after the closing quote`,
		"A=hunter2\x00":      `"envFile" line 1 has a NUL character`,
	} {
		write(t, filepath.Join(dir, "x.env"), text)
		opts := surroundings(t, nil)
		opts.Workspace = dir
		_, problems := Parse([]byte(`{"servers":{"a":{"command":"go","envFile":"x.env"}}}`), "f", opts)
		if len(problems) != 1 || problems[0].Code != CodeEnvFile || !strings.HasSuffix(problems[0].Message, want) {
			t.Errorf("%q: %v, want %s", text, problems, want)
		}
		if strings.Contains(fmt.Sprintf("%+v", problems), "hunter2") {
			t.Errorf("%q: shown: %+v", text, problems)
		}
	}
}

// Many servers may name one large file.
func TestEnvFilesAreBounded(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "x.env"), "A="+strings.Repeat("x", MaxFileSize-2))
	opts := surroundings(t, nil)
	opts.Workspace = dir
	servers := make([]string, 20)
	for i := range servers {
		servers[i] = fmt.Sprintf(`"s%d":{"command":"go","envFile":"x.env"}`, i)
	}
	c, problems := Parse([]byte(`{"servers":{`+strings.Join(servers, ",")+`}}`), "f", opts)
	if got := problems.Warnings(); got != len(servers)-8 || problems.Errors() > 0 {
		t.Fatalf("%d warnings, want %d: %v", got, len(servers)-8, problems)
	}
	if c.Servers[7].Unconfigured() != nil || c.Servers[8].Unconfigured() == nil {
		t.Error("the servers beyond the limit are not Unconfigured")
	}
}
