package config

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse checks the promises of Parse for every file.
func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.json")
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, seed := range []string{
		`{"servers":[{"id":"${A}","command":"${B}","args":["--token","${C}"],"cwd":"${D}","envFile":"${E}"}]}`,
		`{"mcpServers":{"a":{"url":"${A}","headers":{"X":"${B}"},"type":"${C}","pollInterval":"${D}","include":["${E}["]}}}`,
		`{"servers":{"a":{"url":"https://${A}/","protocol":"${input:x}","onConnect":[{"tool":"${A}","arguments":{"a":"${B"}}]}}}`,
		"\ufeff{\"a\":\n[1,\t'x']}", "{\"a\": \"\\ud800\"}", "{/*", "{//", `{"a":"\`,
	} {
		f.Add([]byte(seed))
	}
	const secret = "s3cr3t\x00[value"
	opts := surroundings(f, nil)
	opts.Getenv = func(string) (string, bool) { return secret, true }
	f.Fuzz(func(t *testing.T, data []byte) {
		before := bytes.Clone(data)
		c, problems := Parse(data, "f.json", opts)
		if !bytes.Equal(before, data) {
			t.Fatal("data changed")
		}
		if (c == nil) != (problems.Errors() > 0) {
			t.Fatalf("config %v, %d errors", c, problems.Errors())
		}
		lines := strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n")
		for i, p := range problems {
			if p.Line < 1 || p.Line > len(lines) || p.Column < 1 || p.Column > utf8.RuneCountInString(lines[p.Line-1])+1 {
				t.Errorf("outside the file: %v", p)
			}
			if i > 0 && (problems[i-1].Line > p.Line || problems[i-1].Line == p.Line && problems[i-1].Column > p.Column) {
				t.Errorf("not sorted: %v before %v", problems[i-1], p)
			}
			shown := p.Message + p.Hint + p.Path
			if strings.Contains(shown, "s3cr3t") && !bytes.Contains(data, []byte("s3cr3t")) && !bytes.Contains(data, []byte(`\u`)) {
				t.Errorf("shows a value: %+v", p)
			}
			if p.Message == "" || p.Code == "" || strings.ContainsAny(p.Message, "\n\r\x1b\x00") || !utf8.ValidString(shown) {
				t.Errorf("message: %+q", p)
			}
		}
		if _, err := json.Marshal(problems); err != nil {
			t.Error(err)
		}
		again, same := Parse(data, "f.json", opts)
		if !reflect.DeepEqual(c, again) || !slices.Equal(problems, same) {
			t.Error("a second reading gives something else")
		}
		if c == nil {
			return
		}
		seen := map[string]bool{}
		for _, s := range c.Servers {
			if s.ID == "" || seen[s.ID] || !printableID(s.ID) || !s.Equal(s) {
				t.Errorf("server %q", s.ID)
			}
			seen[s.ID] = true
			if s.Unconfigured() == nil && s.Enabled && (s.Transport == TransportStdio) != (s.Command != "") ||
				s.Unconfigured() == nil && s.Enabled && (s.Transport == TransportStdio) == (s.URL.Reveal() != "") {
				t.Errorf("server %q: transport %q", s.ID, s.Transport)
			}
			if s.PollInterval < minPollInterval || s.RequestTimeout <= 0 || s.ConnectTimeout < 0 || s.Read == "" || s.Protocol == "" {
				t.Errorf("server %q: %+v", s.ID, s)
			}
		}
	})
}
