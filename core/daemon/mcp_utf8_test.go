package daemon_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
)

// Views are identified by JSON, in which two paths that are not UTF-8 can be the same.
func TestPathsThatAreNotUTF8(t *testing.T) {
	w, base, _ := startHTTP(t, nil)
	dir := w.folder(map[string]string{"a": ""})
	for _, folder := range []string{dir, dir + "/caf\xe9"} {
		res, err := http.Get(endpointURL(base, "a", folder))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || strings.Contains(string(text), "must be UTF-8") != (folder != dir) {
			t.Errorf("%q: %s %s, %v", folder, res.Status, text, err)
		}
	}
}
