//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"strconv"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"
)

// exits runs a program and wants a certain exit code: exits CODE PROGRAM [ARG...].
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARG...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	if exit, ok := err.(*exec.ExitError); ok { //nolint:errorlint // Exec returns it bare
		got = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

// jsonField checks the last output: json FILE PATH WANT, where FILE is stdout or
// stderr, PATH is like 0.servers.1.id (numbers index arrays and lines of NDJSON),
// and WANT is the value as JSON, or a bare string.
func jsonField(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 3 {
		ts.Fatalf("usage: json FILE PATH WANT")
	}
	var docs []any
	dec := json.NewDecoder(bytes.NewReader([]byte(ts.ReadFile(args[0]))))
	for dec.More() {
		var doc any
		ts.Check(dec.Decode(&doc))
		docs = append(docs, doc)
	}
	var at any = docs
	if len(docs) == 1 {
		at = docs[0]
	}
	for name := range strings.SplitSeq(args[1], ".") {
		switch v := at.(type) {
		case map[string]any:
			at = v[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(v) {
				ts.Fatalf("%s: no element %s in an array of %d", args[1], name, len(v))
			}
			at = v[i]
		default:
			ts.Fatalf("%s: nothing below a %T", args[1], at)
		}
	}
	got, ok := at.(string)
	if !ok {
		b, err := json.Marshal(at)
		ts.Check(err)
		got = string(b)
	}
	if (got == args[2]) == neg {
		ts.Fatalf("%s is %s, want %s", args[1], got, fmt.Sprintf("%s (negated: %t)", args[2], neg))
	}
}
