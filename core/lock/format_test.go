package lock

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tool returns a tool with a description.
func tool(name, description string) Item {
	definition, err := json.Marshal(map[string]any{"name": name, "description": description})
	if err != nil {
		panic(err)
	}
	return DefaultHashing().Item(SectionTools, definition)
}

// sample returns a lock with all that a lock can have.
func sample() *Lock {
	l := New()
	item := func(section Section, definition string) Item {
		return l.Hashing.Item(section, []byte(definition))
	}
	l.Servers["files"] = &Server{
		Policy: Policy{"L002": Allow, "L005": Audit},
		Items: map[Section][]Item{
			SectionLaunch:       {item(SectionLaunch, `{"command":"npx","args":["-y","files@1.2.3"]}`)},
			SectionCapabilities: {item(SectionCapabilities, `{"tools":{}}`), item(SectionCapabilities, `{"tools":{},"x":1.50}`)},
			SectionInstructions: {item(SectionInstructions, `"Use it."`)},
			SectionTools:        {tool("read", "Reads a file."), tool("write", "Hidden: \u200b\u202e & <b> \"ü\"")},
			SectionPrompts:      {},
			SectionTemplates:    {item(SectionTemplates, `{"uriTemplate":"file:///{path}","annotations":{"lastModified":"2026"}}`)},
			SectionResources:    {item(SectionResources, `{"uri":"file:///a","size":3}`)},
			SectionContents:     {item(SectionContents, string(Content("file:///a", "text/plain", []byte("abc"), true)))},
		},
		Rejected: []Rejection{{SectionTools, "read", ""}, {SectionTools, "read", sum(nil)}},
	}
	l.Servers["empty/~id"] = &Server{Items: map[Section][]Item{}}
	return l
}

func TestMarshal(t *testing.T) {
	t.Parallel()
	data, err := Marshal(sample())
	must(t, err)
	golden := "testdata/sample.lock"
	if os.Getenv("UPDATE") != "" {
		must(t, os.WriteFile(golden, data, 0o644))
	}
	want, err := os.ReadFile(golden)
	must(t, err)
	if diff := cmp.Diff(string(want), string(data)); diff != "" {
		t.Errorf("-want +got; set UPDATE=1 to accept:\n%s", diff)
	}
	l, err := Parse(data)
	must(t, err)
	if drifts := CompareLocks(sample(), l); len(drifts) > 0 {
		t.Errorf("%+v", drifts)
	}
	if again, err := Marshal(l); err != nil || !bytes.Equal(again, data) {
		t.Errorf("%v\n%s", err, again)
	}
	got := l.Servers["files"]
	if !reflect.DeepEqual(got.Policy, Policy{"L002": Allow, "L005": Audit}) || !reflect.DeepEqual(got.Rejected, sample().Servers["files"].Rejected) ||
		len(got.Items[SectionCapabilities]) != 2 || got.Items[SectionPrompts] == nil || l.Servers["empty/~id"].Items[SectionTools] != nil {
		t.Errorf("%+v", got)
	}
}

func TestMarshalSortsAndKeepsTheLock(t *testing.T) {
	t.Parallel()
	want, err := Marshal(sample())
	must(t, err)
	l := sample()
	s := l.Servers["files"]
	tools := s.Items[SectionTools]
	tools[0], tools[1] = tools[1], tools[0]
	s.Rejected[0], s.Rejected[1] = s.Rejected[1], s.Rejected[0]
	l.Hashing.Exclude[0], l.Hashing.Exclude[1] = l.Hashing.Exclude[1], l.Hashing.Exclude[0]
	if got, err := Marshal(l); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%v\n%s", err, got)
	}
	if s.Items[SectionTools][0].Key != "write" || s.Rejected[0].Hash == "" {
		t.Error("the lock was modified")
	}
}

func TestMarshalRefuses(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*Server){
		"the hash does not match": func(s *Server) { s.Items[SectionTools][0].Hash = sum(nil) },
		"duplicate object member name at /servers/files/tools/read/definition": func(s *Server) { s.Items[SectionTools][0].Definition = []byte(`{"name":"x","a":1,"a":2}`) },
		"more than 10000 elements": func(s *Server) {
			for i := range MaxItems {
				s.Rejected = append(s.Rejected, Rejection{SectionTools, fmt.Sprint(i), ""})
			}
		},
		"no action":              func(s *Server) { s.Policy["L001"] = "none" },
		"no class of changes":    func(s *Server) { s.Policy["L999"] = Allow },
		"the section is invalid": func(s *Server) { s.Rejected[0].Section = "x" },
	} {
		l := sample()
		spoil(l.Servers["files"])
		_, err := Marshal(l)
		if _, ok := errors.AsType[*FileError](err); !ok || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestParseErrors(t *testing.T) {
	t.Parallel()
	valid, err := Marshal(sample())
	must(t, err)
	file := string(valid)
	edit := func(old, new string) string {
		if strings.Count(file, old) == 0 {
			t.Fatalf("the sample does not contain %s", old)
		}
		return strings.Replace(file, old, new, 1)
	}
	for _, test := range []struct{ name, data, want string }{
		{"empty", "", "line 1, column 1: the file is empty; restore it from version control, or delete it and run: mcptrack lock"},
		{"white space", "\n \n", "the file is empty"},
		{"half", file[:len(file)/2], "the file ends before its JSON does, so it was not written completely; restore it"},
		{"zeros", file[:len(file)/2] + strings.Repeat("\x00", 10), `invalid character '\x00'`},
		{"merge", edit("  \"servers\"", "<<<<<<< HEAD\n  \"servers\""), "the file has the conflict markers of a merge; take one side"},
		{"array", "[]", "the value has the wrong type"},
		{"no version", `{"servers":{}}`, "it is not a lock of mcptrack"},
		{"next version", edit(`"lockVersion": 1`, `"lockVersion": 2`), "lockVersion is 2; this version of mcptrack reads only 1; upgrade mcptrack"},
		{"spelled version", edit(`"lockVersion": 1`, `"lockVersion": 1.0`), "lockVersion is 1.0"},
		{"hostile version", edit(`"lockVersion": 1`, `"lockVersion": "\u001b[2J"`), `lockVersion is "\u001b[2J"`},
		{"duplicate member", edit(`"command": "npx"`, `"command": "sh", "command": "npx"`), "duplicate object member name at /servers/files/launch/definition/command; it was edited by hand"},
		{"duplicate server", edit(`"empty/~id"`, `"files"`), "duplicate object member name"},
		{"unknown member", edit(`"lockVersion": 1,`, `"lockVersion": 1, "note": 1,`), "line 2, column 21: there is an unknown member note"},
		{"unknown member of an item", edit(`"hash": "`, `"note": 1, "hash": "`), "unknown member note"},
		{"other case", edit(`"servers"`, `"Servers"`), "unknown member Servers"},
		{"algorithm", edit("sha256-jcs", "md5"), `the algorithm is "md5" instead of "sha256-jcs" at /hash/algorithm; a newer version`},
		{"exclusion", edit(`"resources/size"`, `"tools/description"`), `hashes must not leave out "tools/description", because its changes would not be found; they leave out only resources/annotations/lastModified, resources/size, templates/annotations/lastModified at /hash/exclude; it was edited by hand`},
		{"exclusions", edit(`"resources/size"`, `"resources/size", "resources/size"`), `"resources/size" is left out twice at /hash/exclude`},
		{"wrong type", edit(`"hashes": {`, `"rejected": [7], "hashes": {`), "the value has the wrong type at /servers/empty~1~0id/rejected/0"},
		{"no list", edit(`"others": [`, `"others": {}, "x": [`), "a list is expected at /servers/files/capabilities/others"},
		{"null section", edit(`"prompts": {}`, `"prompts": null`), "an object is expected"},
		{"other name", edit(`"read": {`, `"reads": {`), "the name is not the name in the definition at /servers/files/tools/reads"},
		{"text for a definition", edit(`"text":`, `"definition":`), "the definition is missing at /servers/files/instructions"},
		{"null item", edit(`"read": {`, `"nothing": null, "read": {`), "the definition is missing at /servers/files/tools/nothing"},
		{"hash without algorithm", edit(`"hash": "sha256:`, `"hash": "`), "a hash is sha256: and 64 hexadecimal digits"},
		{"no object", edit(`"empty/~id": {`, `"x": 3, "empty/~id": {`), "the value has the wrong type at /servers/x"},
		{"null server", edit(`"empty/~id": {`, `"x": null, "empty/~id": {`), "the server is null at /servers/x"},
		{"null servers", `{"lockVersion":1,"hash":{"algorithm":"sha256-jcs","exclude":[]},"servers":null}`, "an object is expected"},
		{"no servers", `{"lockVersion":1,"hash":{"algorithm":"sha256-jcs","exclude":[]}}`, "servers is missing"},
		{"edited definition", edit("Reads a file.", "Reads a file. Then sends it."), "the hash does not match the definition at /servers/files/tools/read; it was edited by hand or merged incorrectly"},
		{"removed item", edit(`"prompts": {}`, `"prompts": {}, "x": []`), "unknown member x"},
		{"removed section", edit(`"prompts": {},`, ``), "there is a hash of a section that is missing at /servers/files/hashes"},
		{"edited set", edit(sum(nil), sum([]byte("x"))), "the hash of prompts does not match the hashes of its items"},
		{"action", edit(`"wording": "allow"`, `"wording": "ignore"`), `wording: there is no action "ignore"`},
		{"class", edit(`"wording": "allow"`, `"words": "allow"`), `there is no class of changes "words"`},
		{"surrogate", edit("Reads a file.", `Reads \ud800`), "invalid surrogate pair"},
		{"invalid UTF-8", edit("Reads a file.", "Reads \xff"), "invalid UTF-8"},
		{"large number", edit("1.50", "1e999"), "the number 1e999 is too large at /servers/files/capabilities/others/0"},
		{"more JSON", file + "{}", "after top-level value"},
		{"byte order mark", "\ufeff" + file, "invalid character"},
		{"deep", edit(`"args": [`, `"args": `+strings.Repeat("[", 100)+strings.Repeat("]", 100)+`, "x": [`), "nested 101 levels deep"},
		{"very deep", `{"lockVersion":` + strings.Repeat("[", 1<<20), "exceeded max depth"},
		{"large", file + strings.Repeat(" ", MaxFile), "the file is larger than 64 MiB"},
		{"many items", edit(`"others": [`, `"others": [`+strings.Repeat("{},", MaxItems)), "there are more than 10000 elements"},
		{"many servers", `{"lockVersion":1,"servers":{` + many() + `}}`, "there are more than 10000 elements"},
		{"escape sequence", edit(`"lockVersion": 1,`, `"lockVersion": 1, "\u001b[2J": 1,`), `unknown member \x1b[2J`},
	} {
		_, err := Parse([]byte(test.data))
		if _, ok := errors.AsType[*FileError](err); !ok || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v\nwant %s", test.name, err, test.want)
			continue
		}
		if text := err.Error(); strings.ContainsAny(text, "\n\x1b") || strings.Contains(text, "jsontext") || strings.Contains(text, "json:") {
			t.Errorf("%s: %q", test.name, text)
		}
	}
}

// many returns the members of an object that is too large.
func many() string {
	var b strings.Builder
	for i := range MaxItems + 1 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `"s%d":{"hashes":{}}`, i)
	}
	return b.String()
}

// TestEveryCutIsRefused: no prefix of a file is a valid lock.
func TestEveryCutIsRefused(t *testing.T) {
	t.Parallel()
	data, err := Marshal(sample())
	must(t, err)
	end := len(bytes.TrimSpace(data))
	for n := range end {
		_, err := Parse(data[:n])
		e, ok := errors.AsType[*FileError](err)
		if !ok || n > 2 && !strings.Contains(e.Problem, "not written completely") {
			t.Fatalf("the first %d bytes: %v", n, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	data, err := Marshal(sample())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"lockVersion":1,"hash":{"algorithm":"sha256-jcs","exclude":[]},"servers":{"a":{"hashes":{}}}}`))
	f.Add([]byte(`{"lockVersion":1,"hash":{"algorithm":"sha256-jcs","exclude":[]},"servers":{"a":{"hashes":{"prompts":"sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},"prompts":{},"policy":{"L001":"hold"},"rejected":[{"section":"tools"}]}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		l, err := Parse(data)
		if err != nil {
			if _, ok := errors.AsType[*FileError](err); !ok {
				t.Fatalf("%T", err)
			}
			return
		}
		out, err := Marshal(l)
		must(t, err)
		again, err := Parse(out)
		must(t, err)
		if drifts := CompareLocks(l, again); len(drifts) > 0 {
			t.Fatalf("%+v", drifts)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
