//go:build !unix && !windows

package main

import "os"

const terminalPath = "CONOUT$"

func foreground(*os.File) bool { return true }

func flush(*os.File) {}
