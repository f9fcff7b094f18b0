//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

const (
	// peerMark is set in the environment of every stdio peer, so that a test
	// can see whether one of its peers is still alive.
	peerMark = "MCPTRACK_TEST_PEER"

	peerReadyTimeout = 60 * time.Second // Node on a busy machine takes seconds
)

// A peer is a real MCP server, made by others, that a test connects to.
type peer struct {
	// Config is the server's entry in a configuration file: a JSON object with
	// command and args, or type and url. It opts in to tracking and makes the
	// server send updates by itself.
	Config string

	// Mark is the value of peerMark in the environment of a stdio peer, empty
	// for one that startPeer runs.
	Mark string
}

// peerEntry is the part of a server's configuration that the peers need.
type peerEntry struct {
	Command        string            `json:"command,omitempty"`
	Args           []string          `json:"args,omitempty"`
	Env            map[string]string `json:"env,omitempty"`
	Type           string            `json:"type,omitempty"`
	URL            string            `json:"url,omitempty"`
	Protocol       string            `json:"protocol,omitempty"`
	TrackResources bool              `json:"trackResources"`
	OnConnect      []peerCall        `json:"onConnect,omitempty"`
}

type peerCall struct {
	Tool      string         `json:"tool"`
	Arguments map[string]any `json:"arguments"`
}

// startPeer makes the named peer ready: a stdio peer is only described, since
// the client starts it; an HTTP peer is started on a free loopback port,
// accepts connections when startPeer returns, and is killed with its whole
// process group at the end of the test.
//
// Without the peers installed the test is skipped, and in CI it fails.
func startPeer(t testing.TB, name string) peer {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	npm := filepath.Join(root, "testdata", "peers")
	everything := installedPeer(t, npm, "node_modules", "@modelcontextprotocol", "server-everything", "dist", "index.js")
	modern := filepath.Join(npm, "ts-modern.mjs")
	loopback := filepath.Join(npm, "loopback.mjs")
	gosdk := installedPeer(t, root, ".cache", "bin", "everything-server")
	node := filepath.Join(npm, "node_modules", ".bin", "node")
	if _, err := os.Stat(node); err != nil {
		node = "node" // the packaged one exists for Linux only
	}

	toggle := []peerCall{{Tool: "toggle-subscriber-updates", Arguments: map[string]any{}}}
	switch name {
	case "everything-stdio":
		return stdioPeer(t, toggle, node, everything, "stdio")
	case "everything-http":
		return httpPeer(t, "http", startAnnouncing(t, node, "--import", loopback, everything, "streamableHttp")+"/mcp", toggle)
	case "everything-sse":
		return httpPeer(t, "sse", startAnnouncing(t, node, "--import", loopback, everything, "sse")+"/sse", toggle)
	case "gosdk-stdio":
		return stdioPeer(t, nil, gosdk)
	case "gosdk-http":
		return httpPeer(t, "http", startOnFreePort(t, gosdk, "-stateless=false", "-http"), nil)
	case "gosdk-stateless":
		return httpPeer(t, "http", startOnFreePort(t, gosdk, "-stateless=true", "-http"), nil)
	case "ts-http":
		return httpPeer(t, "http", startAnnouncing(t, node, modern, "--http=0"), nil)
	case "ts-http-reject":
		return httpPeer(t, "http", startAnnouncing(t, node, modern, "--http=0", "--legacy=reject"), nil)
	case "ts-stdio":
		return stdioPeer(t, nil, node, modern, "--stdio")
	case "ts-stdio-reject":
		return stdioPeer(t, nil, node, modern, "--stdio", "--legacy=reject")
	}
	t.Fatalf("no peer is called %q", name)
	return peer{}
}

// installedPeer returns the path of a file that scripts/peers.sh installs.
func installedPeer(t testing.TB, elem ...string) string {
	t.Helper()
	path := filepath.Join(elem...)
	if _, err := os.Stat(path); err != nil {
		const missing = "the test peers are not installed; run scripts/peers.sh"
		if os.Getenv("CI") == "true" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	return path
}

func stdioPeer(t testing.TB, onConnect []peerCall, command string, args ...string) peer {
	t.Helper()
	mark := fmt.Sprintf("%d-%s", os.Getpid(), t.Name())
	return peer{Mark: mark, Config: marshalPeer(t, peerEntry{
		Command: command, Args: args, Env: map[string]string{peerMark: mark},
		TrackResources: true, OnConnect: onConnect,
	})}
}

func httpPeer(t testing.TB, transport, url string, onConnect []peerCall) peer {
	t.Helper()
	return peer{Config: marshalPeer(t, peerEntry{
		Type: transport, URL: url, TrackResources: true, OnConnect: onConnect,
	})}
}

func marshalPeer(t testing.TB, entry peerEntry) string {
	t.Helper()
	data, err := json.Marshal(entry)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
