// Package peertest finds the real programs that tests run against: published servers and clients,
// a browser, shells, editors, NATS. Only tests import it.
//
// The name of a test that needs more than Go begins with TestReal; the functions of this package fail
// any other test. So go test -skip ^TestReal needs nothing but Go, and go test -run ^TestReal runs the rest.
// If a program is missing, its tests are skipped, except with CI=true, where they fail.
package peertest

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Program returns the path of an installed program, such as chromium or tmux.
func Program(t testing.TB, name string) string {
	t.Helper()
	isReal(t)
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, name+" is not installed; scripts/check.sh installs it")
	}
	return path
}

// Path returns the absolute path of a file or folder in testdata/peers, such as
// node_modules/@modelcontextprotocol/server-everything/dist/index.js. scripts/peers.sh installs
// node_modules.
func Path(t testing.TB, elem ...string) string {
	t.Helper()
	isReal(t)
	peers := filepath.Join(root(t), "testdata", "peers")
	for _, path := range []string{filepath.Join(peers, "node_modules", "@modelcontextprotocol"), filepath.Join(peers, filepath.Join(elem...))} {
		if _, err := os.Stat(path); err != nil {
			missing(t, "the npm peers are not installed; run scripts/peers.sh")
		}
	}
	return filepath.Join(peers, filepath.Join(elem...))
}

// Node returns the path of Node: the packaged one, which exists for Linux only, else the installed one.
func Node(t testing.TB) string {
	t.Helper()
	packaged := filepath.Join(Path(t), "node_modules", ".bin", "node")
	if _, err := os.Stat(packaged); err == nil {
		return packaged
	}
	return Program(t, "node")
}

// Script returns the command that runs a JavaScript file of testdata/peers with Node.
func Script(t testing.TB, path string, args ...string) []string {
	t.Helper()
	return append([]string{Node(t), Path(t, path)}, args...)
}

// EverythingServer returns the path of the Go SDK's conformance server, which scripts/peers.sh
// builds.
func EverythingServer(t testing.TB) string {
	t.Helper()
	isReal(t)
	path := filepath.Join(root(t), ".cache", "bin", "everything-server")
	if _, err := os.Stat(path); err != nil {
		missing(t, "the conformance server is not built; run scripts/peers.sh")
	}
	return path
}

// NATSServer returns the path of nats-server. The go command builds the version that
// scripts/tools.mod specifies, unless it is cached, so the first test on a machine may wait for
// the network.
func NATSServer(t testing.TB) string {
	t.Helper()
	isReal(t)
	cmd := exec.CommandContext(t.Context(), "go", "tool", "-modfile="+filepath.Join("scripts", "tools.mod"), "-n", "nats-server")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			err = errors.New(string(exit.Stderr))
		}
		missing(t, "nats-server cannot be built: "+err.Error())
	}
	return strings.TrimSpace(string(out))
}

func isReal(t testing.TB) {
	t.Helper()
	if _, test := t.(*testing.T); test && !strings.HasPrefix(t.Name(), "TestReal") {
		t.Fatalf("this test needs more than Go, so its name must begin with TestReal")
	}
}

func missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatal(what)
	}
	t.Skip(what)
}

// root returns the root of the repository. Tests run in the folder of their package.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "scripts", "tools.mod")); err == nil {
			return dir
		}
		up := filepath.Dir(dir)
		if up == dir {
			t.Fatal("no folder above the test has scripts/tools.mod")
		}
		dir = up
	}
}
