package config_test

import (
	"fmt"

	"github.com/mcptrack/mcptrack/core/config"
)

// A config that is built in code, without a file.
func ExampleHTTP() {
	docs := config.HTTP("docs", "https://docs.example/mcp")
	docs.Include = []string{"file:///guide/**"}
	cfg := &config.Config{Servers: []config.Server{docs, config.Stdio("notes", "notes-server", "--stdio")}}
	for _, srv := range cfg.Servers {
		fmt.Println(srv.ID, srv.Transport, srv.Tracked())
	}
	// Output:
	// docs http true
	// notes stdio true
}

func ExampleStdio() {
	srv := config.Stdio("build", "go", "run", "./cmd/build-server")
	srv.Env = map[string]config.Secret{"TOKEN": config.NewSecret("s3cret")}
	fmt.Println(srv.Command, srv.Args)
	// Output: go [run ./cmd/build-server]
}
