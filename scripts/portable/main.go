// Portable type-checks all packages and their tests as they are compiled for other systems. It finds
// almost all of what go vet and go test -c would report for a system, in seconds: these compile every
// dependency for it, which takes minutes. .github/workflows/ci.yml builds and tests on the systems
// themselves.
//
// usage: go run ./scripts/portable GOOS...     (in the root of the repository)
package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "usage: go run ./scripts/portable GOOS...")
		os.Exit(2)
	}
	counts, errs := make([]int, len(os.Args)-1), make([]error, len(os.Args)-1)
	var checking sync.WaitGroup
	for i, goos := range os.Args[1:] {
		checking.Go(func() { counts[i], errs[i] = check(goos) })
	}
	checking.Wait()
	for i, goos := range os.Args[1:] {
		fmt.Printf("%s: %d packages\n", goos, counts[i])
	}
	if err := errors.Join(errs...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// source is what go list reports of a package: of one that is compiled for a test, too.
type source struct {
	ImportPath, Name, Dir string
	GoFiles               []string
	ImportMap             map[string]string
	Module                *struct {
		GoVersion string
		Main      bool
	}
	Error *struct{ Err string }
}

// check type-checks for one system, and returns how many packages of ours it checked.
func check(goos string) (ours int, err error) {
	list := exec.Command("go", "list", "-deps", "-test", "-e",
		"-json=ImportPath,Name,Dir,GoFiles,ImportMap,Module,Error", "./...")
	list.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	list.Stderr = os.Stderr
	out, err := list.StdoutPipe()
	if err != nil {
		return 0, err
	}
	if err := list.Start(); err != nil {
		return 0, err
	}
	checked, reported := map[string]*types.Package{}, map[string]bool{}
	var errs []error
	for dec := json.NewDecoder(out); ; {
		var src source
		if err := dec.Decode(&src); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return ours, errors.Join(err, list.Wait())
		}
		switch {
		case src.Error != nil:
			errs = append(errs, fmt.Errorf("%s: %s: %s", goos, src.ImportPath, src.Error.Err))
			continue
		case src.ImportPath == "unsafe":
			checked[src.ImportPath] = types.Unsafe
			continue
		case strings.HasSuffix(src.ImportPath, ".test"): // generated, from tests that are checked
			continue
		}
		var found []error
		checked[src.ImportPath], found = src.check(checked)
		if src.Module == nil || !src.Module.Main {
			continue
		}
		ours++
		for _, err := range found {
			if text := fmt.Sprintf("%s: %s", goos, err); !reported[text] { // a test compiles the package again
				reported[text] = true
				errs = append(errs, errors.New(text))
			}
		}
	}
	return ours, errors.Join(append(errs, list.Wait())...)
}

// check type-checks a package whose imports are checked. Of a dependency it looks only at the
// declarations.
func (src source) check(checked map[string]*types.Package) (*types.Package, []error) {
	var errs []error
	failed := func(err error) { errs = append(errs, err) }
	fset := token.NewFileSet()
	var files []*ast.File
	for _, name := range src.GoFiles {
		if !filepath.IsAbs(name) {
			name = filepath.Join(src.Dir, name)
		}
		file, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			failed(err)
			continue
		}
		files = append(files, file)
	}
	conf := types.Config{
		Error:            failed,
		Importer:         imports{src.ImportMap, checked},
		IgnoreFuncBodies: src.Module == nil || !src.Module.Main,
		Sizes:            types.SizesFor("gc", "amd64"),
	}
	if src.Module != nil && src.Module.GoVersion != "" {
		conf.GoVersion = "go" + src.Module.GoVersion
	}
	path, _, _ := strings.Cut(src.ImportPath, " ") // the rest names the test it is compiled for
	pkg, _ := conf.Check(path, fset, files, nil)   // reported to failed
	return pkg, errs
}

// imports finds the packages that a package imports.
type imports struct {
	names   map[string]string
	checked map[string]*types.Package
}

func (i imports) Import(path string) (*types.Package, error) {
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	if name, ok := i.names[path]; ok {
		path = name
	}
	if pkg := i.checked[path]; pkg != nil {
		return pkg, nil
	}
	return nil, fmt.Errorf("%s is not listed", path)
}
