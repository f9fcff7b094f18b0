package config

import "testing"

// A server made in code equals the same entry of a file.
func TestServersInCode(t *testing.T) {
	for entry, got := range map[string]Server{
		`{"id":"a","url":"https://h/mcp","trackResources":true}`:             HTTP("a", "https://h/mcp"),
		`{"id":"a","command":"go","args":["run","x"],"trackResources":true}`: Stdio("a", "go", "run", "x"),
		`{"id":"a","command":"go","trackResources":true}`:                    Stdio("a", "go"),
	} {
		want := parsed(t, `{"servers":[`+entry+`]}`, nil)
		want.Dir = "" // a file has the working directory as an absolute path
		if !got.Equal(want) || !got.Tracked() {
			t.Errorf("%s:\n got %+v\nwant %+v", entry, got, want)
		}
	}
}
