package main

import (
	"errors"
	"os"

	"golang.org/x/term"

	"github.com/mcptrack/mcptrack/commands"
)

// errNoTerminal is why a question cannot be asked.
var errNoTerminal = errors.New("no terminal")

// askOn returns what a question is written to and its answer read from. Answers come from
// stdin, so that it must be a terminal: a program that is started with another stdin, as agents and
// services start theirs, must not wait for somebody at the terminal that it happens to have. The
// question goes to stderr, or where that is redirected, to the terminal itself.
func askOn(in, out *os.File) (*commands.Terminal, error) {
	if !term.IsTerminal(int(in.Fd())) || !foreground(in) {
		return nil, errNoTerminal
	}
	tty := &commands.Terminal{Reader: in, Writer: out}
	if !term.IsTerminal(int(out.Fd())) {
		file, err := os.OpenFile(terminalPath, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		tty.Writer = file // left open until the process ends: it asks once
	}
	tty.Columns, tty.Rows, _ = term.GetSize(int(in.Fd())) // 0 if they are unknown
	return tty, nil
}
