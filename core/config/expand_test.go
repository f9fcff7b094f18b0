package config

import (
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func testExpander(variables map[string]string) *expander {
	return &expander{getenv: func(n string) (string, bool) { v, ok := variables[n]; return v, ok },
		workspace: filepath.FromSlash("/projects/space"), home: filepath.FromSlash("/home/me")}
}

func TestExpand(t *testing.T) {
	variables := map[string]string{"A": "a", "EMPTY": "", "NEST": "${A}", "MCPTRACK_INPUT_API_KEY": "k", "ProgramFiles(x86)": "p"}
	for _, test := range []struct{ in, want string }{
		{"", ""}, {"plain", "plain"}, {"$A $$A $", "$A $$A $"}, {"{A}", "{A}"},
		{"${A}", "a"}, {"x${A}y${A}z", "xayaz"}, {"${env:A}", "a"},
		{"${A:-d}", "a"}, {"${NO:-d}", "d"}, {"${env:NO:-d}", "d"}, {"${NO:-}", ""}, {"${NO:-a:-b}", "a:-b"},
		{"${EMPTY}", ""}, {"${EMPTY:-d}", "d"},
		{"${NEST}", "${A}"}, // one pass
		{"$${A}", "$a"},
		{"${workspaceFolder}", filepath.FromSlash("/projects/space")}, {"${workspaceFolderBasename}", "space"},
		{"${userHome}", filepath.FromSlash("/home/me")}, {"${pathSeparator}${/}", strings.Repeat(string(filepath.Separator), 2)},
		{"${input:api-key}", "k"}, {"${input:no:-d}", "d"}, {"${env:ProgramFiles(x86)}", "p"},
	} {
		got, errs := testExpander(variables).expand(test.in)
		if got != test.want || len(errs) > 0 {
			t.Errorf("%q: %q, %v; want %q", test.in, got, errs, test.want)
		}
	}
}

func TestExpandErrors(t *testing.T) {
	for _, test := range []struct {
		in   string
		code Code
		want string
	}{
		{"${NO}", CodeUnset, "uses variable NO, which is not set"},
		{"${env:NO}", CodeUnset, "uses variable NO, which is not set"},
		{"${input:my-token.1}", CodeUnsetInput, `uses input "my-token.1", but variable MCPTRACK_INPUT_MY_TOKEN_1 is not set`},
		{"a ${NO", CodeReference, `has a "${" without "}"`},
		{"${}", CodeReference, `has the unknown reference "${}"`},
		{"${:-d}", CodeReference, `has the unknown reference "${}"`},
		{"${1A}", CodeReference, `has the unknown reference "${1A}"`},
		{"${cmd:ls}", CodeReference, `has the unknown reference "${cmd:ls}"`},
		{"${env:}", CodeReference, `has the unknown reference "${}"`},
		{"${A:-${B}}", CodeReference, "has a reference inside a reference"},
		{"${ghp_0123456789012345678901234567890123456789-}", CodeSecret, `has a secret in place of a variable name`},
	} {
		_, errs := testExpander(nil).expand(test.in)
		if len(errs) != 1 || errs[0].code != test.code || errs[0].message != test.want {
			t.Errorf("%q: %+v, want %s %s", test.in, errs, test.code, test.want)
		}
	}
	if _, errs := testExpander(nil).expand("${A} ${B} ${A:-x}"); len(errs) != 2 {
		t.Errorf("not all errors: %v", errs)
	}
}

// Values from the environment are secrets in every key; texts in the file and paths are not.
func TestServerSecrets(t *testing.T) {
	dir := t.TempDir()
	variables := map[string]string{"A": "value-a", "B": "value-b", "C": "value-c", "D": "value-d", "DIR": dir, "GONE": filepath.Join(dir, "gone"),
		"MCPTRACK_INPUT_KEY": "value-i", "EMPTY": "", "TEXT": "value-t"}
	for text, want := range map[string]string{
		`{"command": "go", "args": ["${A}", "--k=${env:B}", "${input:key}", "${A}"], "cwd": "${DIR}",
			"env": {"X": "${C}"}, "onConnect": [{"tool": "t", "arguments": {"x": ["${D}"]}}]}`: "value-a value-b value-i value-c value-d",
		`{"command": "go", "args": ["${GONE}"]}`:                                                                                 variables["GONE"],
		`{"url": "https://h.example/${A}/mcp", "headers": {"X": "Bearer ${B}"}}`:                                                 "value-a value-b",
		`{"command": "go", "args": ["${workspaceFolder}${/}${userHome}", "${NO:-plain}", "${EMPTY}"], "description": "${TEXT}"}`: "",
	} {
		var got []string
		for _, s := range parsed(t, `{"mcpServers": {"x": `+text+`}}`, variables).Secrets {
			got = append(got, s.Reveal())
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: %q, want %s", text, got, want)
		}
	}
}

// TestExpandIsBounded: many references to one large variable.
func TestExpandIsBounded(t *testing.T) {
	e := testExpander(map[string]string{"BIG": strings.Repeat("x", 1<<20)})
	got, errs := e.expand(strings.Repeat("${BIG}", 10))
	if len(got) > maxExpanded || len(errs) != 10-8 || errs[0].code != CodeTooLarge {
		t.Errorf("%d bytes, %d errors", len(got), len(errs))
	}
}

// FuzzExpand: a text without references does not change, values are not expanded again, and no error
// contains a value.
func FuzzExpand(f *testing.F) {
	for _, seed := range []string{"", "${A}", "${A:-b}", "${env:A:-}", "${input:x y}", "${", "}${}", "$${A}${B", "${A:-${B}}", "${userHome}/x"} {
		f.Add(seed)
	}
	const value = "v4lue-${A}-v4lue"
	f.Fuzz(func(t *testing.T, in string) {
		e := testExpander(nil)
		e.getenv = func(string) (string, bool) { return value, true }
		got, errs := e.expand(in)
		if !strings.Contains(in, "${") && (got != in || len(errs) > 0) {
			t.Errorf("%q changed to %q, %v", in, got, errs)
		}
		if max := len(in) + strings.Count(in, "${")*len(value); len(got) > max {
			t.Errorf("%q: %d bytes, more than one pass can give", in, len(got))
		}
		for _, err := range errs {
			if strings.Contains(err.message+err.hint, "v4lue") && !strings.Contains(in, "v4lue") {
				t.Errorf("%q: shows a value: %+v", in, err)
			}
			if utf8.ValidString(in) && !utf8.ValidString(err.message) {
				t.Errorf("%q: message is not UTF-8: %q", in, err.message)
			}
		}
	})
}
