package main

import (
	"errors"
	"os"

	"golang.org/x/term"

	"github.com/mcptrack/mcptrack/commands"
)

var errNoTerminal = errors.New("no terminal")

// askOn returns the terminal for a question. Answers come from stdin, which must be a terminal: a program
// that an agent or a service started with another stdin must not wait for an answer. Questions go to
// stderr or, if stderr is redirected, to the terminal itself.
func askOn(in, out *os.File) (*commands.Terminal, error) {
	if !term.IsTerminal(int(in.Fd())) || !foreground(in) {
		return nil, errNoTerminal
	}
	tty := &commands.Terminal{Reader: in, Writer: out, Flush: func() { flush(in) }}
	if !term.IsTerminal(int(out.Fd())) {
		file, err := os.OpenFile(terminalPath, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		tty.Writer = file // left open until the process ends: there is one question
	}
	tty.Columns, tty.Rows, _ = term.GetSize(int(in.Fd())) // 0: unknown
	return tty, nil
}
