//go:build linux

package main

import (
	"context"
	"net/url"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/mcptrack/mcptrack/core/mcpserver/mcpservertest"
)

// Clients on the official SDKs use one server of the daemon over HTTP.
func TestRealDaemonServesHTTPClients(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("", "d") // its path is short enough for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	const secret = "a-token-of-sixteen-or-more"
	token, file := filepath.Join(dir, "token"), filepath.Join(dir, "mcp-servers.json")
	save(t, token, secret)
	save(t, file, config(`"demo": `+demoEntry(t, markOf(t), "")))
	cmd := mcptrackCommand(context.Background(), "daemon", "--http", "127.0.0.1:0", "--token-file", token)
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+dir, "MCPTRACK_SOCKET="+filepath.Join(dir, "s"))
	s := serveCommand(t, cmd)
	to := s.url + "demo?" + url.Values{"config": {file}, "folder": {dir}}.Encode()
	if _, status := initialize(t, to, map[string]string{"Authorization": "Bearer wrong-" + secret}); status != 401 {
		t.Errorf("with a wrong token: %d", status)
	}
	for _, library := range []string{"sdk", "client"} {
		client := mcpservertest.Drive(t, nodeCommand(context.Background(), t, "driven.mjs", library, to, secret))
		for _, request := range [][2]string{{"tools/list", "{}"}, {"resources/read", `{"uri":"vault://note/guide.md"}`}, {"resources/subscribe", `{"uri":"vault://note/clock.md"}`}} {
			if _, failed := client.Do(request[0], request[1]); failed != "" {
				t.Errorf("%s: %s: %s", library, request[0], failed)
			}
		}
		client.Await("resources/updated vault://note/clock.md")
	}
	s.stop(syscall.SIGTERM)
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
