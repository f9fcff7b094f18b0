package document

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

func TestFormats(t *testing.T) {
	type server struct {
		ID   string `json:"id"`
		Note string `json:"note,omitempty"`
		N    int64  `json:"n"`
	}
	docs := []server{{ID: "a", Note: "x\x1b\u202e<&>", N: 9007199254740993}, {ID: "b"}}
	for format, want := range map[string]string{
		"json": "[\n  {\n    \"id\": \"a\",\n    \"note\": \"x\\u001b\\u202e<&>\",\n    \"n\": 9007199254740993\n  },\n  {\n    \"id\": \"b\",\n    \"n\": 0\n  }\n]\n",
		"yaml": "- id: a\n  note: \"x\\e\\u202e<&>\"\n  \"n\": 9007199254740993\n- id: b\n  \"n\": 0\n",
		"template={{.id}}: {{.n}}{{with .note}} {{json .}}{{end}}":                                                          "a: 9007199254740993 \"x\\u001b\\u202e<&>\"\nb: 0\n",
		"template={{if gt .n 1}}many{{else}}few{{end}} {{printf \"%d\" .n}}":                                                "many 9007199254740993\nfew 0\n",
		"template={{range $k, $v := .}}{{$k}} {{end}}{{define \"x\"}}{{.no}}{{end}}{{template \"x\" .}}{{$x := .id}}{{$x}}": "id n note a\nid n b\n",
	} {
		f, err := ParseFormat(format)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		if err := Write(&got, f, docs); err != nil {
			t.Fatal(err)
		}
		if got.String() != want {
			t.Errorf("%s:\n%q, want\n%q", format, got.String(), want)
		}
	}
}

func TestStreamOfYAML(t *testing.T) {
	f, err := ParseFormat("yaml")
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, id := range []string{"a", "b"} {
		if err := WriteEach(&got, f, map[string]string{"id": id}); err != nil {
			t.Fatal(err)
		}
	}
	if want := "---\nid: a\n---\nid: b\n"; got.String() != want {
		t.Errorf("%q, want %q", got.String(), want)
	}
}

func TestBadFormats(t *testing.T) {
	for _, s := range []string{"", "xml", "template", "template={{.x", "JSON"} {
		if _, err := ParseFormat(s); err == nil {
			t.Errorf("%q is a format", s)
		}
	}
	f, err := ParseFormat("template={{index . 3}}")
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(&strings.Builder{}, f, map[string]int{}); err == nil {
		t.Error("a template that fails is no error")
	}
	if _, err := ParseFormat("template={{.x"); err == nil || err.Error() != "invalid output template, line 1: unclosed action" {
		t.Errorf("an open action: %v", err)
	}
}

// A template may name the fields that a record can have. Another one is an error that lists them, but only
// where the value is the record itself.
func TestUnknownFields(t *testing.T) {
	type base struct {
		ID string `json:"id"`
	}
	type record struct {
		base
		Note   string            `json:"note,omitempty"`
		Labels map[string]string `json:"labels"`
		hidden string
	}
	typed := []record{{base: base{"a"}, Labels: map[string]string{"x": "y"}, hidden: "h"}}
	raw := []json.RawMessage{json.RawMessage(`{"name":"n"}`)}
	for _, tt := range []struct {
		text     string
		v        any
		optional []string
		unknown  string
		want     string
	}{
		{"{{.id}}{{.note}}{{.note.any}}{{.labels.x}}{{.labels.no}}{{with .labels}}{{.no}}{{$.id}}{{end}}", typed, nil, "", "aya\n"},
		{"{{.Foo}}", typed, nil, "Foo", ""},
		{"{{with .labels}}{{$.Foo}}{{end}}", typed, nil, "Foo", ""},
		{"{{if .labels}}{{else if eq (len .Foo) 1}}{{end}}", typed, nil, "Foo", ""},
		{"{{.hidden}}", typed, nil, "hidden", ""},
		{"{{.name}}{{.title}}", raw, []string{"title"}, "", "n\n"},
		{"{{.Name}}", raw, []string{"title"}, "Name", ""},
		{"{{.Name}}", raw, nil, "", "\n"},
		{"{{.Name}}", raw[:0], []string{"name", "title"}, "Name", ""},
		{"{{.name}}{{.title}}", raw[0], []string{"title"}, "", "n\n"},
		{"{{.Name}}", raw[0], []string{"title"}, "Name", ""},
	} {
		f, err := ParseFormat("template=" + tt.text)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		err = Write(&got, f, tt.v, tt.optional...)
		unknown, is := errors.AsType[*UnknownFieldError](err)
		switch {
		case tt.unknown == "" && (err != nil || got.String() != tt.want):
			t.Errorf("%s: %q, %v", tt.text, got.String(), err)
		case tt.unknown != "" && (!is || unknown.Field != tt.unknown || len(unknown.Known) < 2):
			t.Errorf("%s: %v", tt.text, err)
		}
	}
}
