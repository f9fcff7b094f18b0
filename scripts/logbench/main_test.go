package main

import (
	"encoding/json"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// TestCommands: each command finds in the log what it measures, and fails if it does not.
func TestCommands(t *testing.T) {
	const n = 2 * resources
	command := func(what, dir string, events int, into any) error {
		var out strings.Builder
		err := run(t.Context(), []string{what, dir, strconv.Itoa(events)}, strings.NewReader(""), &out)
		if err != nil || into == nil {
			return err
		}
		return json.Unmarshal([]byte(out.String()), into)
	}
	dir := filepath.Join(t.TempDir(), "log")
	if err := command("fill", dir, n, nil); err != nil {
		t.Fatal(err)
	}
	var found lookups
	if err := command("history", dir, n, &found); err != nil || len(found.History) != samples || found.Open <= 0 {
		t.Errorf("%+v, %v", found, err)
	}
	if err := command("history", dir, 2*n, &found); err == nil {
		t.Error("half of the versions were enough")
	}
	var took costs
	if err := command("measure", filepath.Join(t.TempDir(), "log"), n, &took); err != nil || len(took.Append) != samples || len(took.Resume) != samples ||
		took.Stored <= 0 || took.Read <= 0 || !strings.HasSuffix(took.Middle, "-"+strconv.Itoa(n/2)) {
		t.Errorf("%+v, %v", took, err)
	}
	if err := command("measure", dir, n, &took); err == nil {
		t.Error("a log that has events already was measured")
	}
}
