package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/mcptrack/mcptrack/core/lock/locktest"
	"github.com/mcptrack/mcptrack/core/session/sessiontest"
)

// changedServer is an MCP server on stdio that offers the items of package locktest: changed while a file
// exists. It announces both.
func changedServer(args []string) int {
	if len(args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: changed-server legacy|modern FILE")
		return 2
	}
	exists := func() bool {
		_, err := os.Stat(args[1])
		return !errors.Is(err, fs.ErrNotExist)
	}
	server := sessiontest.New()
	server.Legacy, server.Modern = args[0] == "legacy", args[0] == "modern"
	was := exists()
	locktest.Offer(server, was)
	go func() { // ends with the process
		for ; ; time.Sleep(50 * time.Millisecond) {
			if is := exists(); is != was {
				locktest.Offer(server, is)
				was = is
			}
		}
	}()
	server.ServeStdio(os.Stdin, os.Stdout)
	return 0
}
