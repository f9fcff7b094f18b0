//go:build !linux

package filewatch

// silentFS knows no filesystem without events but those of Linux; the slow poll finds what
// events miss.
func silentFS(string) string { return "" }
