package completion

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/core/catalog"
)

func tools(t *testing.T, raw ...string) catalog.List {
	t.Helper()
	var list catalog.List
	for _, r := range raw {
		it, err := catalog.NewItem(catalog.Tools, json.RawMessage(r))
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, it)
	}
	return list
}

func TestNamesAreKept(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "cache", "names.json")
	Update(path, func(n Names) {
		n.Learn("docs", catalog.Tools, tools(t,
			`{"name":"weather","inputSchema":{"properties":{"city":{},"unit":{"enum":["metric","us"]},"long":{"type":"boolean"}}}}`))
	})
	n := Load(path)
	want := []string{"city=", "long=", "long=true", "long=false", "unit=", "unit=metric", "unit=us"}
	if got := n["docs"].Arguments[catalog.Tools]["weather"]; !slices.Equal(got, want) || !slices.Equal(n["docs"].Names[catalog.Tools], []string{"weather"}) {
		t.Errorf("%q, %+v", got, n)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// A damaged file only loses the names, and any number of names makes a bounded file.
func TestNamesAreBounded(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "names.json")
	for _, damage := range []string{"", "{", "[]", strings.Repeat("x", 2*maxFile)} {
		if err := os.WriteFile(path, []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if n := Load(path); n == nil || len(n) > 0 {
			t.Errorf("%v from %d bytes", n, len(damage))
		}
	}
	var many []string
	for i := range 2 * maxNames {
		many = append(many, fmt.Sprintf(`{"name":"t%d","inputSchema":{}}`, i))
	}
	Update(path, func(n Names) { n.Learn("docs", catalog.Tools, tools(t, many...)) })
	if got := len(Load(path)["docs"].Names[catalog.Tools]); got != maxNames {
		t.Errorf("%d names", got)
	}
	Update("", func(Names) { t.Error("there is no file") })
	if len(Load("")) != 0 {
		t.Error("names from nowhere")
	}
}
