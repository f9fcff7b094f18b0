package main

import (
	"errors"
	"io"
	"os"

	"golang.org/x/term"
)

// errNoTerminal is why a question cannot be asked.
var errNoTerminal = errors.New("no terminal")

// askOn returns what a question is written to and its answer read from. Answers come from
// stdin, so that it must be a terminal: a program that is started with another stdin, as agents and
// services start theirs, must not wait for somebody at the terminal that it happens to have. The
// question goes to stderr, or where that is redirected, to the terminal itself.
func askOn(in, out *os.File) (io.ReadWriter, error) {
	if !term.IsTerminal(int(in.Fd())) || !foreground(in) {
		return nil, errNoTerminal
	}
	if term.IsTerminal(int(out.Fd())) {
		return conversation{in, out}, nil
	}
	tty, err := os.OpenFile(terminalPath, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	return conversation{in, tty}, nil // left open until the process ends: it asks once
}

type conversation struct {
	io.Reader
	io.Writer
}
