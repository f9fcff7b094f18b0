package main

import (
	"os"

	"golang.org/x/sys/windows"
)

const terminalPath = "CONOUT$"

func foreground(*os.File) bool { return true }

// flush discards the input that nothing has read yet.
func flush(tty *os.File) { _ = windows.FlushConsoleInputBuffer(windows.Handle(tty.Fd())) }
