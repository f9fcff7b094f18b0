//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// A load is what a subscriber is given to do.
type load struct {
	servers   int // how many load servers
	resources int // of each
	count     int // notifications that one server is asked for, 0 for none
	rate      int // per second, 0 for as fast as possible
	each      bool
	read      string // of ours: none or digest
	times     string // file of the times of sending
	after     string // file that they wait for; "" for nothing
}

// A contender is one of those measured side by side.
type contender struct {
	name string

	// list returns the commands to run, one after another, for tools, resources
	// and prompts of a stdio server. nil: does not take part.
	list func(server []string) ([][]string, error)

	// watch returns the command that subscribes to all resources of the load.
	watch func(l load) ([]string, error)

	// ready is what a line says once all resources of one server are subscribed.
	ready string

	// slow says that a list takes seconds, so that it is measured fewer times.
	slow bool
}

func (b *bench) blastArgv(l load) []string {
	return []string{b.self, "blast", "-resources", strconv.Itoa(l.resources), "-times", l.times}
}

// ours runs the program under test with a config made for the occasion.
func (b *bench) ours() contender {
	return contender{
		name: "mcptrack", ready: `"subscription.active"`,
		list: func(server []string) ([][]string, error) {
			file, err := b.writeConfig(map[string]any{"server": map[string]any{"command": server[0], "args": server[1:]}})
			return [][]string{{b.mcptrack, "--config", file, "list", "--json"}}, err
		},
		watch: func(l load) ([]string, error) {
			servers := map[string]any{}
			for i := range l.servers {
				entry := map[string]any{
					"command": b.self, "args": b.blastArgv(l)[1:], "read": l.read,
					"trackResources": true, "trackTools": false, "trackPrompts": false,
				}
				if l.count > 0 {
					entry["onConnect"] = []any{map[string]any{
						"tool": "blast", "arguments": map[string]any{"count": l.count, "rate": l.rate}}}
				}
				servers[fmt.Sprintf("blast%03d", i)] = entry
			}
			file, err := b.writeConfig(servers)
			return []string{b.mcptrack, "--config", file, "watch", "--json"}, err
		},
	}
}

func (b *bench) bare() contender {
	return contender{
		name: "mcp-go", ready: "ready",
		list: func(server []string) ([][]string, error) {
			return [][]string{append([]string{b.self, "bare", "list", "--"}, server...)}, nil
		},
		watch: func(l load) ([]string, error) {
			argv := []string{b.self, "bare", "watch", "-count", strconv.Itoa(l.count), "-rate", strconv.Itoa(l.rate)}
			if l.each {
				argv = append(argv, "-print")
			}
			return append(append(argv, "--"), b.blastArgv(l)...), nil
		},
	}
}

func (b *bench) typescript() contender {
	script := filepath.Join(b.peers, "client.mjs")
	return contender{
		name: "TypeScript", ready: "ready",
		list: func(server []string) ([][]string, error) {
			return [][]string{append([]string{b.node, script, "list"}, server...)}, nil
		},
		watch: func(l load) ([]string, error) {
			each := "0"
			if l.each {
				each = "1"
			}
			return append([]string{b.node, script, "watch", strconv.Itoa(l.count), strconv.Itoa(l.rate), each}, b.blastArgv(l)...), nil
		},
	}
}

// inspector lists one kind per run, so what the others do at once takes three.
func (b *bench) inspector() contender {
	script := filepath.Join(b.peers, "node_modules", "@modelcontextprotocol", "inspector", "clients", "launcher", "build", "index.js")
	return contender{name: "Inspector", slow: true, list: func(server []string) ([][]string, error) {
		var runs [][]string
		for _, method := range []string{"tools/list", "resources/list", "prompts/list"} {
			run := append([]string{b.node, script, "--cli"}, server...)
			runs = append(runs, append(run, "--method", method))
		}
		return runs, nil
	}}
}

func (b *bench) floor() contender {
	return contender{name: "floor", list: func(server []string) ([][]string, error) {
		return [][]string{append([]string{b.self, "floor"}, server...)}, nil
	}}
}

func (b *bench) writeConfig(servers map[string]any) (string, error) {
	data, err := json.Marshal(map[string]any{"mcpServers": servers})
	if err != nil {
		return "", err
	}
	file, err := os.CreateTemp(b.tmp, "mcp-servers-*.json")
	if err != nil {
		return "", err
	}
	_, err = file.Write(data)
	if cerr := file.Close(); err == nil {
		err = cerr
	}
	return file.Name(), err
}
