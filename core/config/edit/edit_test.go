package edit

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/config/tree"
)

// attach is what tests write in place of an entry.
func attach() []Member {
	return []Member{{"command", "mcptrack-attach"}, {"args", []string{"--config", `/a "b"/x.json`, "github"}}}
}

func keep(name string) bool {
	return slices.Contains([]string{"timeout", "tools", "note", "enabled", "name"}, name)
}

// samples are texts in all formats with an entry "github", the path of the entry, and what the edit
// makes of it.
func samples() map[string]struct {
	format     tree.Format
	path       []string
	text, want string
} {
	type sample = struct {
		format     tree.Format
		path       []string
		text, want string
	}
	in := func(container string) []string { return []string{container, "github"} }
	return map[string]sample{
		"comments, tabs, CRLF, trailing commas, BOM": {tree.JSON, in("servers"),
			"\ufeff{\r\n\t// mine\r\n\t\"inputs\": [{\"id\": \"t\",}],\r\n\t\"servers\": {\r\n\t\t\"a\": {\"command\": \"x\"}, // first\r\n\t\t\"github\": { /* old */\r\n\t\t\t\"command\": \"npx\",\r\n\t\t\t\"timeout\": 5, // s\r\n\t\t\t\"env\": {\"T\": \"s}\"},\r\n\t\t},\r\n\t},\r\n}\r\n",
			"\ufeff{\r\n\t// mine\r\n\t\"inputs\": [{\"id\": \"t\",}],\r\n\t\"servers\": {\r\n\t\t\"a\": {\"command\": \"x\"}, // first\r\n\t\t\"github\": {\r\n\t\t\t\"command\": \"mcptrack-attach\",\r\n\t\t\t\"args\": [\"--config\", \"/a \\\"b\\\"/x.json\", \"github\"],\r\n\t\t\t\"timeout\": 5\r\n\t\t},\r\n\t},\r\n}\r\n"},
		"one line": {tree.JSON, in("mcpServers"),
			`{"mcpServers":{"github":{"command":"npx","args":["-y"]},"b":{"command":"y"}}}`,
			`{"mcpServers":{"github":{"command": "mcptrack-attach", "args": ["--config", "/a \"b\"/x.json", "github"]},"b":{"command":"y"}}}`},
		"nested": {tree.JSON, []string{"projects", "/a/b", "mcpServers", "github"},
			"{\"projects\": {\n  \"/a/b\": {\"mcpServers\": {\"github\": {\n    \"command\": \"x\"}}}}}",
			"{\"projects\": {\n  \"/a/b\": {\"mcpServers\": {\"github\": {\n    \"command\": \"mcptrack-attach\",\n    \"args\": [\"--config\", \"/a \\\"b\\\"/x.json\", \"github\"]\n  }}}}}"},
		"tables": {tree.TOML, in("mcp_servers"),
			"model = \"o\" # mine\r\n\r\n[mcp_servers.\"github\"] # old\r\ncommand = \"npx\"\r\nargs = [\r\n  \"-y\", # ]\r\n]\r\ntimeout = 5\r\n\r\n[mcp_servers.github.env]\r\nT = '''a\r\n[x]'''\r\n[mcp_servers.github.tools.a]\r\nmode = \"ask\"\r\n# end\r\n[mcp_servers.b]\r\ncommand = \"y\"\r\n",
			"model = \"o\" # mine\r\n\r\n[mcp_servers.\"github\"]\r\ncommand = \"mcptrack-attach\"\r\nargs = [\"--config\", \"/a \\\"b\\\"/x.json\", \"github\"]\r\ntimeout = 5\r\n\r\n[mcp_servers.github.tools.a]\r\nmode = \"ask\"\r\n# end\r\n[mcp_servers.b]\r\ncommand = \"y\"\r\n"},
		"inline table": {tree.TOML, in("mcp_servers"),
			"[mcp_servers]\ngithub = { command = \"npx\", env = { T = \"s\" }, timeout = 5 } # x\nb = { command = \"y\" }\n",
			"[mcp_servers]\ngithub = { command = \"mcptrack-attach\", args = [\"--config\", \"/a \\\"b\\\"/x.json\", \"github\"], timeout = 5 } # x\nb = { command = \"y\" }\n"},
		"inline tables in one": {tree.TOML, in("mcp_servers"),
			"mcp_servers = { a = { command = \"y\" }, github = { command = \"npx\" } }",
			"mcp_servers = { a = { command = \"y\" }, github = { command = \"mcptrack-attach\", args = [\"--config\", \"/a \\\"b\\\"/x.json\", \"github\"] } }"},
		"array of tables": {tree.TOML, []string{"mcp_servers", "1"},
			"[[mcp_servers]]\nname = \"a\"\n[mcp_servers.env]\nT = \"x\"\n\n[[mcp_servers]]\nname = \"github\"\ncommand = \"npx\"\n\n[mcp_servers.env] # old\nT = \"s\"\n\n[[mcp_servers]]\nname = \"b\"\n",
			"[[mcp_servers]]\nname = \"a\"\n[mcp_servers.env]\nT = \"x\"\n\n[[mcp_servers]]\ncommand = \"mcptrack-attach\"\nargs = [\"--config\", \"/a \\\"b\\\"/x.json\", \"github\"]\nname = \"github\"\n\n[[mcp_servers]]\nname = \"b\"\n"},
		"list of inline tables": {tree.TOML, []string{"mcp_servers", "1"},
			"mcp_servers = [\n  { name = \"a\", args = [\"x\"] }, # ]\n  { name = \"github\", command = \"npx\" },\n]\n",
			"mcp_servers = [\n  { name = \"a\", args = [\"x\"] }, # ]\n  { command = \"mcptrack-attach\", args = [\"--config\", \"/a \\\"b\\\"/x.json\", \"github\"], name = \"github\" },\n]\n"},
		"dotted keys": {tree.TOML, in("mcp_servers"),
			"[mcp_servers]\ngithub.command = \"npx\"\ngithub.timeout = 5\ngithub.env.T = \"s\"\nb.command = \"y\"",
			"[mcp_servers]\ngithub.command = \"mcptrack-attach\"\ngithub.args = [\"--config\", \"/a \\\"b\\\"/x.json\", \"github\"]\ngithub.timeout = 5\nb.command = \"y\""},
		"block mapping": {tree.YAML, in("extensions"),
			"# mine\nextensions:\n  a:\n    cmd: x\n  github: # old\n    cmd: npx\n    args:\n    - -y\n    timeout: 300 # s\n    envs:\n      T: |\n        a\n        b\n\n  # next\n  b:\n    cmd: y\n",
			"# mine\nextensions:\n  a:\n    cmd: x\n  github: # old\n    command: mcptrack-attach\n    args:\n    - \"--config\"\n    - \"/a \\\"b\\\"/x.json\"\n    - github\n    timeout: 300 # s\n\n  # next\n  b:\n    cmd: y\n"},
		"comments between": {tree.YAML, in("extensions"),
			"extensions:\n  github:\n    timeout: 5\n\n    # of what\n    # follows\n    cmd: x\n  b: {cmd: y}\n",
			"extensions:\n  github:\n    command: mcptrack-attach\n    args:\n    - \"--config\"\n    - \"/a \\\"b\\\"/x.json\"\n    - github\n    timeout: 5\n  b: {cmd: y}\n"},
		"block mapping at the end": {tree.YAML, in("extensions"),
			"extensions:\n    github:\n        cmd: npx\n        timeout: 300",
			"extensions:\n    github:\n        command: mcptrack-attach\n        args:\n        - \"--config\"\n        - \"/a \\\"b\\\"/x.json\"\n        - github\n        timeout: 300"},
		"list": {tree.YAML, []string{"mcpServers", "1"},
			"mcpServers:\n  - name: a\n    command: x\n  - name: github\n    command: npx\n",
			"mcpServers:\n  - name: a\n    command: x\n  - command: mcptrack-attach\n    args:\n    - \"--config\"\n    - \"/a \\\"b\\\"/x.json\"\n    - github\n    name: github\n"},
		"flow mapping": {tree.YAML, in("extensions"),
			"extensions: {github: {cmd: npx, note: it's, envs: {T: 'a}'}}, b: {cmd: y}}\n",
			"extensions: {github: {\"command\": \"mcptrack-attach\", \"args\": [\"--config\", \"/a \\\"b\\\"/x.json\", \"github\"], \"note\": \"it's\"}, b: {cmd: y}}\n"},
	}
}

// object makes the edit in a text. The tree that remains must be the tree of the new text.
func object(t testing.TB, text string, format tree.Format, path []string) ([]byte, Edit, error) {
	t.Helper()
	f, err := Open([]byte(text), format)
	if err != nil {
		return nil, Edit{}, err
	}
	edit, err := f.Object(path, attach(), keep)
	wantTree(t, f)
	return f.Text(), edit, err
}

func restore(t testing.TB, text string, format tree.Format, path []string, edit Edit) ([]byte, error) {
	t.Helper()
	f, err := Open([]byte(text), format)
	if err != nil {
		return nil, err
	}
	err = f.Restore(path, edit)
	wantTree(t, f)
	return f.Text(), err
}

func wantTree(t testing.TB, f *File) {
	t.Helper()
	if d, err := parse(f.Text(), f.doc.format); err != nil || !reflect.DeepEqual(d, f.doc) {
		t.Errorf("the tree is not that of %q: %v", f.Text(), err)
	}
}

func TestObjectAndRestore(t *testing.T) {
	t.Parallel()
	for name, s := range samples() {
		got, edit, err := object(t, s.text, s.format, s.path)
		if err != nil || string(got) != s.want {
			t.Errorf("%s: %v\n got %q\nwant %q", name, err, got, s.want)
			continue
		}
		back, err := restore(t, string(got), s.format, s.path, edit)
		if err != nil || string(back) != s.text {
			t.Errorf("%s: restored %v\n got %q\nwant %q", name, err, back, s.text)
		}
	}
}

// Edits of other entries, made while the edit is in place, survive its undo, byte for byte.
func TestRestoreKeepsOtherEdits(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for name, s := range samples() {
		for range 50 {
			edited, edit, err := object(t, s.text, s.format, s.path)
			if err != nil {
				t.Fatal(name, err)
			}
			now, want := string(edited), s.text
			for _, other := range []struct{ old, new string }{{"\"y\"", "\"changed\""}, {": y", ": changed"}, {"mine", "ours – ü"}, {"\"x\"", "\"\\u00e4\""}, {"b.command", "c = 1\nb.command"}} {
				if random.IntN(2) == 0 && strings.Count(now, other.old) == 1 && strings.Count(want, other.old) == 1 {
					now, want = strings.Replace(now, other.old, other.new, 1), strings.Replace(want, other.old, other.new, 1)
				}
			}
			back, err := restore(t, now, s.format, s.path, edit)
			if err != nil || string(back) != want {
				t.Fatalf("%s: %v\n got %q\nwant %q", name, err, back, want)
			}
		}
	}
}

// A program that writes its file anew may write the value in another form.
func TestRestoreOtherForm(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		format                   tree.Format
		path                     []string
		before, rewritten, after string
	}{
		{tree.JSON, []string{"s", "x"}, `{"s":{"x":{"command":"y"}}}`,
			"{\n  \"s\": {\n    \"x\": {\n      \"args\": [\n        \"--config\",\n        \"/a \\\"b\\\"/x.json\",\n        \"github\"\n      ],\n      \"command\": \"mcptrack-attach\"\n    }\n  }\n}",
			"{\n  \"s\": {\n    \"x\": {\"command\":\"y\"}\n  }\n}"},
		{tree.YAML, []string{"s", "x"}, "s:\n  x:\n    cmd: y # z\n    timeout: 5\n",
			"s:\n  x:\n    timeout: 5\n    args: ['--config', '/a \"b\"/x.json', github]\n    command: mcptrack-attach\n  b: {}\n", "s:\n  x:\n    cmd: y # z\n    timeout: 5\n  b: {}\n"},
		{tree.TOML, []string{"s", "x"}, "[s.x]\ncmd = 'y'\n", "[s.x]\nargs = ['--config', '/a \"b\"/x.json', 'github']\ncommand = 'mcptrack-attach'\n", "[s.x]\ncmd = 'y'\n"},
	} {
		_, edit, err := object(t, test.before, test.format, test.path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := restore(t, test.rewritten, test.format, test.path, edit)
		if err != nil || string(got) != test.after {
			t.Errorf("%s: %v\n got %q\nwant %q", test.format, err, got, test.after)
		}
	}
}

// What was recorded must be one object, or it could change the rest of the text.
func TestRestoreIsOneObject(t *testing.T) {
	t.Parallel()
	for _, was := range []string{`{} // x`, ` {}`, `{}, "y": {}`, `1`, ``, "\ufeff{}"} {
		const text = `{"s": {"x": {"command": "y"}, "z": 1}}`
		f, err := Open([]byte(text), tree.JSON)
		if err != nil {
			t.Fatal(err)
		}
		path := []string{"s", "x"}
		if err := f.Restore(path, Edit{Value: Digest(f.doc.at(path)), Was: []byte(was)}); err == nil || string(f.Text()) != text {
			t.Errorf("%q: %q, %v", was, f.Text(), err)
		}
	}
}

// A value that somebody edited or removed is not touched.
func TestRestoreRefuses(t *testing.T) {
	t.Parallel()
	for name, s := range samples() {
		edited, edit, err := object(t, s.text, s.format, s.path)
		if err != nil {
			t.Fatal(name, err)
		}
		touched := strings.Replace(string(edited), "mcptrack-attach", "mine", 1)
		if got, err := restore(t, touched, s.format, s.path, edit); !errors.Is(err, ErrChanged) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if got, err := restore(t, s.text, s.format, s.path, edit); err == nil {
			t.Errorf("%s: restored twice: %q", name, got)
		}
	}
	for _, text := range []string{`{}`, `{"servers": {}}`, `{"servers": []}`, `{`, ""} {
		if got, err := restore(t, text, tree.JSON, []string{"servers", "x"}, Edit{}); err == nil {
			t.Errorf("%s: %q", text, got)
		}
	}
}

// What cannot be edited without a change elsewhere is refused.
func TestObjectRefuses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"a: &x {cmd: y}\nextensions:\n  github: *x\n",
		"extensions:\n  github: &x\n    cmd: y\n  b: *x\n",
		"a: &x\n  cmd: y\nextensions:\n  github:\n    <<: *x\n    args: []\n",
		"extensions:\n  github: 1\n", "extensions: {}\n",
	} {
		if got, _, err := object(t, text, tree.YAML, []string{"extensions", "github"}); err == nil {
			t.Errorf("%q became %q", text, got)
		}
	}
	const scattered = "[s.x]\ncommand = \"npx\"\n[s.b]\ncommand = \"y\"\n[s.x.env]\nT = \"s\"\n"
	if got, _, err := object(t, scattered, tree.TOML, []string{"s", "x"}); err == nil {
		t.Errorf("%q became %q", scattered, got)
	}
}

func TestAddAndRemove(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		"{\n  \"servers\": [\n    {\"id\": \"a\"}\n  ]\n}\n", "{\"servers\": []}", "{\"servers\": [{\"id\": \"a\"}]}", "{\r\n\t\"servers\": [\r\n\t\t{\"id\": \"a\"}, // c\r\n\t]}\r\n",
		"{\"servers\": {\"a\": {}, }}", "{\"servers\": [{\"id\": \"a\"} /* , */, {\"id\": \"b\"}\n]}", "{\"servers\": {}}",
	} {
		d, err := parse([]byte(text), tree.JSON)
		if err != nil {
			t.Fatal(err)
		}
		c := d.root.Get("servers").Value
		n := len(c.Items) + len(c.Members)
		last := fmt.Sprint(n)
		if c.Kind == tree.Object {
			last = "x"
		}
		added, err := Add([]byte(text), []string{"servers"}, "x", []byte("{\n  \"id\": \"x\"\n}"))
		if err != nil {
			t.Fatal(text, err)
		}
		if d, err := parse(added, tree.JSON); err != nil || d.at([]string{"servers", last, "id"}) == nil {
			t.Fatalf("%q became %q: %v", text, added, err)
		}
		back, err := Remove(added, []string{"servers", last})
		if err != nil || string(back) != text {
			t.Errorf("%q became %q and then %q: %v", text, added, back, err)
		}
		if n < 1 || c.Kind == tree.Object {
			continue
		}
		first, err := Remove(added, []string{"servers", "0"})
		if d, failure := parse(first, tree.JSON); err != nil || failure != nil || len(d.root.Get("servers").Value.Items) != n {
			t.Errorf("%q became %q: %v, %v", added, first, err, failure)
		}
	}
	got, err := Remove([]byte(`{"servers": [1 /* , */ , 2 /* x */ , ]}`), []string{"servers", "1"})
	if err != nil || string(got) != `{"servers": [1 /* , */   /* x */ , ]}` {
		t.Errorf("%q, %v", got, err)
	}
}

// For any text, an edit that is not refused can be undone, byte for byte.
func FuzzObject(f *testing.F) {
	for _, s := range samples() {
		f.Add(string(s.format), strings.Join(s.path, "\n"), s.text)
	}
	f.Fuzz(func(t *testing.T, format, path, text string) {
		at := strings.Split(path, "\n")
		if len(text) > 1<<16 || !slices.Contains([]string{"json", "toml", "yaml"}, format) {
			return
		}
		edited, edit, err := object(t, text, tree.Format(format), at)
		if err != nil {
			return
		}
		if back, err := restore(t, string(edited), tree.Format(format), at, edit); err != nil || string(back) != text {
			t.Fatalf("%q became %q and then %q: %v", text, edited, back, err)
		}
	})
}
