package config

import (
	"strings"
	"testing"
)

// What this machine lacks hurts one server: the others of the file can be used.
func TestMissingHurtsOneServer(t *testing.T) {
	for entry, want := range map[string]struct {
		code Code
		text string
	}{
		`"command":"go","env":{"K":"${NOPE}"}`:                       {CodeUnset, `"env.K" uses variable NOPE, which is not set`},
		`"command":"go","args":["${input:key}"]`:                     {CodeUnsetInput, `"args[0]" uses input "key", but variable MCPTRACK_INPUT_KEY is not set`},
		`"command":"go","cwd":"nowhere"`:                             {CodeNoDirectory, `"cwd" is not a directory`},
		`"command":"go","envFile":"nowhere"`:                         {CodeEnvFile, `"envFile" does not exist`},
		`"command":"nowhere"`:                                        {CodeCommandNotFound, `command "nowhere" not found on PATH`},
		`"command":"nowhere --stdio"`:                                {CodeShellLine, `"command" looks like a whole shell line`},
		`"url":"${NOPE}"`:                                            {CodeUnset, `"url" uses variable NOPE, which is not set`},
		`"url":"${PLAIN}"`:                                           {CodeURL, `invalid "url"; its scheme must be http or https`},
		`"url":"${EMPTY}"`:                                           {CodeURL, `invalid "url"; it is empty`},
		`"command":"${EMPTY}"`:                                       {CodeValue, `"command" is empty`},
		`"url":"https://h/","headers":{"X":"${CONTROL}"}`:            {CodeHeader, `control characters in the value of header "X"`},
		`"url":"https://h/","type":"${PLAIN}"`:                       {CodeValue, `invalid "type"; expected one of `},
		`"command":"go","pollInterval":"${PLAIN}"`:                   {CodeDuration, `invalid "pollInterval"; expected duration`},
		`"command":"go","args":["${"]`:                               {CodeReference, `"args[0]" has a "${" without "}"`},
		`"command":"go","args":["${other:x}"]`:                       {CodeReference, `"args[0]" has the unknown reference "${other:x}"`},
		`"url":"https://h/","headers":{"${NOPE}":"x"}`:               {CodeHeader, `a header name has a reference`},
		`"url":"https://h/","headers":{"X-${PLAIN}":"x"}`:            {CodeHeader, `a header name has a reference`},
		`"url":"https://h/","bearer_token_env_var":"NOPE"`:           {CodeUnset, `"headers.Authorization" uses variable NOPE, which is not set`},
		`"url":"https://h/","bearer_token_env_var":"a token"`:        {CodeReference, `"headers.Authorization" is not the name of a variable`},
		`"command":"go","env_keys":["NOPE"]`:                         {CodeUnset, `"env_keys" uses variable NOPE, which is not set`},
		`"command":"go","onConnect":[{"tool":"${NOPE}"}]`:            {CodeUnset, `"onConnect[0].tool" uses variable NOPE, which is not set`},
		`"type":"catalog","url":"https://h/","headers":{"X":"${N}"}`: {CodeUnset, `"headers.X" uses variable N, which is not set`},
	} {
		opts := surroundings(t, map[string]string{"PLAIN": "plain", "EMPTY": "", "CONTROL": "a\x01b"})
		file := func(more string) []byte {
			return []byte(`{"servers":{"whole":{"command":"go"},"docs":{` + more + entry + `}}}`)
		}
		c, problems := Parse(file(""), "f", opts)
		if c == nil || len(problems) != 1 || problems[0].Severity != SeverityWarning || problems[0].Code != want.code {
			t.Errorf("%s: %v", entry, problems)
			continue
		}
		if message := `Server "docs": ` + want.text; !strings.HasPrefix(problems[0].Message, message) {
			t.Errorf("%s: %s, want %s", entry, problems[0].Message, message)
		}
		docs, _ := c.Server("docs")
		if err := docs.Unconfigured(); err == nil || !strings.HasPrefix(err.Error(), want.text) {
			t.Errorf("%s: %v, want %s", entry, err, want.text)
		}
		if whole, _ := c.Server("whole"); whole.Unconfigured() != nil {
			t.Errorf("%s: the other server: %v", entry, whole.Missing)
		}
		opts.Strict = true
		if c, problems = Parse(file(""), "f", opts); c != nil || problems.Errors() != 1 {
			t.Errorf("%s: strict: %v", entry, problems)
		}
		if c, problems = Parse(file(`"disabled":true,`), "f", opts); c == nil || len(problems) != 0 {
			t.Errorf("%s: a disabled server is examined: %v", entry, problems)
		}
	}
}

// Where a key takes the name of a variable alone, the advice does not show a form that
// would not be read there.
func TestHintsForNamesOfVariables(t *testing.T) {
	for _, keys := range []string{`"url":"https://h/","bearer_token_env_var":"NOPE"`, `"url":"https://h/","env_http_headers":{"X":"NOPE"}`, `"command":"go","env_keys":["NOPE"]`} {
		if got := only(t, keys, surroundings(t, nil)); !strings.HasSuffix(got, "| set NOPE") {
			t.Errorf("%s: %s", keys, got)
		}
	}
}

// A reference in a text for people does not keep a server from running.
func TestDescriptionNeedsNoVariables(t *testing.T) {
	if s := parsed(t, `{"servers":{"a":{"command":"go","description":"of ${NOPE}"}}}`, nil); s.Description != "of ${NOPE}" || s.Unconfigured() != nil {
		t.Errorf("%q, %v", s.Description, s.Missing)
	}
}

// What is said to be missing does not grow with a hostile file.
func TestMissingIsBounded(t *testing.T) {
	args := `"${A}","${B}"` + strings.Repeat(`,"${A}"`, 500)
	c, _ := Parse([]byte(`{"servers":{"a":{"command":"go","args":[`+args+`]}}}`), "f", surroundings(t, nil))
	if c == nil || len(c.Servers[0].Missing) != maxClauses {
		t.Errorf("%v", c)
	}
}
