//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// The official clients of the Realtime API, openai's OpenAIRealtimeWS and
// @openai/agents-realtime, through the proxy and TLS to an endpoint of others (aimock): both
// see the messages as turns of the user, neither an error, and the model gets them with
// the next response.
func TestRealtimePackages(t *testing.T) {
	t.Parallel()
	installedPeer(t, "..", "..", "testdata", "peers", "node_modules", "@openai", "agents-realtime")
	installedPeer(t, "..", "..", "testdata", "peers", "node_modules", "@copilotkit", "aimock")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	certFile, keyFile, _ := certificate(t)
	cmd := nodeCommand(ctx, t, "realtime.mjs")
	cmd.Env = append(os.Environ(), "NODE_EXTRA_CA_CERTS="+certFile)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = errs.Close() }()
	cmd.Stderr = errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = cmd.Wait()
	}()
	lines := bufio.NewReader(stdout)
	line := func() string {
		text, err := lines.ReadString('\n')
		if err != nil {
			said, _ := os.ReadFile(errs.Name())
			t.Fatalf("realtime.mjs: %v\n%s", err, said)
		}
		return strings.TrimSpace(text)
	}
	x := injectBeside(t, nil, "--config", demoFile(t), "--listen", "127.0.0.1:0", "--upstream", line(), "--tls-cert", certFile, "--tls-key", keyFile)
	if _, err := fmt.Fprintln(stdin, <-x.ready); err != nil {
		t.Fatal(err)
	}
	var saw struct {
		OpenAI struct {
			Items, Errors []string
			Said          string
		}
		Agents struct{ Items, Errors []string }
		Asked  []string
	}
	if err := json.Unmarshal([]byte(line()), &saw); err != nil {
		t.Fatal(err)
	}
	message := regexp.MustCompile(`^Resource vault://\S+ updated for MCP server demo at \d{4}-\d\d-\d\dT[\d:.]+Z$`)
	for name, items := range map[string][]string{"openai": saw.OpenAI.Items, "agents": saw.Agents.Items} {
		if len(items) < 2 {
			t.Errorf("%s saw %q", name, items)
		}
		for _, item := range items {
			if !message.MatchString(item) {
				t.Errorf("%s saw %q", name, item)
			}
		}
	}
	if errs := append(saw.OpenAI.Errors, saw.Agents.Errors...); len(errs) > 0 || saw.OpenAI.Said != "Understood." {
		t.Errorf("the model said %q, errors %q", saw.OpenAI.Said, errs)
	}
	for _, item := range saw.OpenAI.Items {
		if !strings.Contains(strings.Join(saw.Asked, ""), item) {
			t.Errorf("the model did not get %q but %q", item, saw.Asked)
		}
	}
}
