package tree

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// show returns a tree in one line, with the position of each key and value.
func show(s *Source, n *Node) string {
	at := func(offset int) string {
		line, column := s.Position(offset)
		return fmt.Sprintf("@%d:%d", line, column)
	}
	var parts []string
	switch n.Kind {
	case Object:
		for _, m := range n.Members {
			parts = append(parts, m.Name+at(m.Offset)+"="+show(s, m.Value))
		}
		return "{" + strings.Join(parts, " ") + "}" + at(n.Offset)
	case List:
		for _, item := range n.Items {
			parts = append(parts, show(s, item))
		}
		return "[" + strings.Join(parts, " ") + "]" + at(n.Offset)
	case String:
		return fmt.Sprintf("%q", n.Text) + at(n.Offset)
	}
	return n.Text + at(n.Offset)
}

func TestTrees(t *testing.T) {
	for _, test := range []struct {
		format     Format
		text, want string
	}{
		{JSON, "{\n \"a\": [1, \"x\", true, null], // c\n}", `{a@2:2=[1@2:8 "x"@2:11 true@2:16 null@2:22]@2:7}@1:1`},
		{TOML, "a = [1, 'x', true]\n", `{a@1:1=[1@1:6 "x"@1:9 true@1:14]@1:1}@1:1`},
		{TOML, "[s.a]\nx = 1\n[s.b]\ny.z = \"ä\"\n[s]\nv = {w = 1979-05-27}\n",
			`{s@1:2={a@1:4={x@2:1=1@2:5}@1:4 b@3:4={y@4:1={z@4:3="ä"@4:7}@4:1}@3:4 v@6:1={w@6:6="1979-05-27"@6:10}@6:5}@1:2}@1:1`},
		{TOML, "[[l]]\na = 1\n[[l]]\n[l.b]\nc = 2\n", `{l@1:3=[{a@2:1=1@2:5}@1:3 {b@4:4={c@5:1=2@5:5}@4:4}@3:3]@1:3}@1:1`},
		{TOML, "[a]\nx = 1\n[a]\nx = 2\n", `{a@1:2={x@2:1=1@2:5}@1:2 a@3:2={x@4:1=2@4:5}@3:2}@1:1`},
		{YAML, "ä:\n  - x: 1\n    y: [~, yes, 'no', true]\n", `{ä@1:1=[{x@2:5=1@2:8 y@3:5=[~@3:9 "yes"@3:12 "no"@3:17 true@3:23]@3:8}@2:5]@2:3}@1:1`},
		{YAML, "a: &a {x: 1, y: 2}\nb:\n  <<: *a\n  y: 3\nc: *a\n",
			`{a@1:1={x@1:8=1@1:11 y@1:14=2@1:17}@1:4 b@2:1={y@4:3=3@4:6 x@1:8=1@1:11}@3:3 c@5:1={x@1:8=1@1:11 y@1:14=2@1:17}@5:4}@1:1`},
	} {
		s := NewSource([]byte(test.text))
		n, err := s.Parse(test.format)
		if err != nil {
			t.Errorf("%q: %+v", test.text, err)
		} else if got := show(s, n); got != test.want {
			t.Errorf("%q:\n got %s\nwant %s", test.text, got, test.want)
		}
	}
}

func TestTOMLSyntax(t *testing.T) {
	for text, want := range map[string]string{
		"a = \n":                                "1:5 invalid TOML here",
		"a = \"x":                               "1:6 invalid TOML here",
		"\n[a\nb = 1":                           "2:3 invalid TOML here",
		"a = 1\na.b = 2\n":                      "2:1 this key already has a value, so it cannot be a table",
		"a = {}\n[a.b]\n":                       "2:2 this key already has a value, so it cannot be a table",
		"x = " + strings.Repeat("[", 100_000):   "1:10005 nested deeper than 64 levels",
		"x = " + strings.Repeat("[", 100):       "1:104 invalid TOML here",
		strings.Repeat("a.", 100_000) + "b = 1": "1:129 nested deeper than 64 levels",
		"x = " + strings.Repeat("{a = ", 80) + "1" + strings.Repeat("}", 80): "1:325 nested deeper than 64 levels",
	} {
		if got := failure(text, TOML); got != want {
			t.Errorf("%.40q: %s, want %s", text, got, want)
		}
	}
}

func TestYAMLSyntax(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("a: &a [x,x,x,x,x,x,x,x,x,x]\n")
	for i := 'b'; i < 'k'; i++ {
		bomb.WriteString(fmt.Sprintf("%c: &%c [%s*%c]\n", i, i, strings.Repeat(fmt.Sprintf("*%c,", i-1), 9), i-1))
	}
	for text, want := range map[string]string{
		"a: b: c\n":                   "1:5 invalid YAML here",
		"a: \"x":                      "1:6 invalid YAML here",
		"a:\n\tb: 1\n":                "2:1 invalid YAML here",
		"a: *x\n":                     "1:4 invalid YAML here",
		"a: 1\n---\nb: 2\n":           "2:1 the file has a second document",
		"# only\n":                    "1:1 file is empty",
		"[a]: 1\n":                    "1:1 a key must be a string",
		"a: &a [*a]\n":                "1:4 nested deeper than 64 levels",
		bomb.String():                 "1:4 aliases expand to too many values",
		strings.Repeat("[", 100_000):  "1:129 nested deeper than 64 levels",
		strings.Repeat("- ", 100_000): "1:257 nested deeper than 64 levels",
		"x: " + strings.Repeat("{a: ", 80) + strings.Repeat("}", 80): "1:260 nested deeper than 64 levels",
	} {
		if got := failure(text, YAML); got != want {
			t.Errorf("%.40q: %s, want %s", text, got, want)
		}
	}
}

// No message quotes the text, which may be a secret.
func TestErrorsShowNoText(t *testing.T) {
	for text, format := range map[string]Format{
		`{"env": {"K": "hunter2secret\x"}}`: JSON, `{"env": {"K": hunter2secrethunter2secret}}`: JSON, `{"env": {hunter2secrethunter2secret: 1}}`: JSON, `{"env": {"K": "hunter2secret}}`: JSON,
		"key = hunter2secret\n": TOML, "key: {hunter2secret: \"\nx: *hunter2\n": YAML,
	} {
		if _, err := NewSource([]byte(text)).Parse(format); err == nil || strings.Contains(fmt.Sprintf("%+v", err), "hunter2") {
			t.Errorf("%s: %+v", text, err)
		}
	}
}

// What editors do not show is named.
func TestInvisible(t *testing.T) {
	t.Parallel()
	for text, format := range map[string]Format{
		"{\"a\":\u00a01}": JSON, "a =\u00a01\n": TOML, "a: 1\n\u200bb: 2\n": YAML, "a:\n\u00a0\u00a0b: 2\n": YAML, "a: 1\n<<<<<<< x\nb: 2\n=======\n": YAML,
	} {
		if _, err := NewSource([]byte(text)).Parse(format); err == nil || !strings.Contains(err.Hint, "invisible") && !strings.Contains(err.Hint, "conflict") {
			t.Errorf("%q: %+v", text, err)
		}
	}
}

// FuzzParse checks that every reader returns a tree or an error, with positions in the text.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"a": [1, "x"]}`, "[a.b]\nc = {d = [1]}\n[[e]]\n", "a: &x [1]\nb: *x\n<<: {c: d}\n", "\ufeff{", "a = '''", "- !!binary x"} {
		for _, format := range []Format{JSON, TOML, YAML} {
			f.Add(string(format), []byte(seed))
		}
	}
	f.Fuzz(func(t *testing.T, format string, data []byte) {
		s := NewSource(data)
		n, err := s.Parse(Format(format))
		if (n == nil) == (err == nil) {
			t.Fatalf("tree %v, error %v", n, err)
		}
		if err != nil {
			if err.Offset < 0 || err.Offset > len(s.text) || err.Message == "" || err.Code == "" {
				t.Errorf("%+v", err)
			}
			if format == "json" && err.Code == CodeSyntax && len(data) < 1<<10 && json.Valid(data) {
				t.Errorf("valid JSON is refused: %+v", err)
			}
			return
		}
		var check func(n *Node, depth int)
		check = func(n *Node, depth int) {
			if n.Offset < 0 || n.Offset > len(s.text) || depth > MaxDepth+2 {
				t.Fatalf("%+v at depth %d", n, depth)
			}
			for _, m := range n.Members {
				if m.Offset < 0 || m.Offset > len(s.text) {
					t.Fatalf("%+v", m)
				}
				check(m.Value, depth+1)
			}
			for _, item := range n.Items {
				check(item, depth+1)
			}
		}
		check(n, 0)
	})
}
