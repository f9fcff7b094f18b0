package core_test

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestMap: the map in doc.go lists every package of core, and the files that it names exist.
func TestMap(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	packages, _, _ := strings.Cut(string(text), "// # Imports")
	rows := regexp.MustCompile(`(?m)^//\t([a-z/0-9]+)  +\S`).FindAllStringSubmatch(packages, -1)
	listed := map[string]bool{}
	for _, row := range rows {
		listed[row[1]] = true
		if _, err := os.Stat(row[1]); err != nil {
			t.Errorf("the map has a package that does not exist: %v", err)
		}
	}
	err = filepath.WalkDir(".", func(dir string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() || dir == "." {
			return err
		}
		if d.Name() == "testdata" {
			return filepath.SkipDir
		}
		files, _ := filepath.Glob(filepath.Join(dir, "*.go")) // the pattern is valid
		if len(files) > 0 && !listed[filepath.ToSlash(dir)] {
			t.Errorf("the map lacks package %s", dir)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	// A file without a folder is in one of the folders named before it.
	folders, files := []string{"core"}, 0
	for _, name := range regexp.MustCompile(`\b(?:core|output|commands)(?:/[a-z0-9_.-]+)+|\b[a-z0-9_]+\.(?:go|js|md)\b`).FindAllString(string(text), -1) {
		name = strings.TrimRight(name, ".")
		candidates := []string{name}
		switch {
		case !strings.Contains(name, "/"):
			candidates = nil
			for _, folder := range folders {
				candidates = append(candidates, path.Join(folder, name))
			}
		case path.Ext(name) == "":
			folders = append(folders, name)
		default:
			folders = append(folders, path.Dir(name))
		}
		files++
		if !slices.ContainsFunc(candidates, func(name string) bool {
			_, err := os.Stat(filepath.Join("..", filepath.FromSlash(name)))
			return err == nil
		}) {
			t.Errorf("the map names %s, which does not exist", name)
		}
	}
	if len(rows) < 45 || files < 60 {
		t.Errorf("only %d packages and %d files were found", len(rows), files)
	}
}
