//go:build !linux

package filewatch

// silentFS cannot tell here; the slow poll finds what events miss.
func silentFS(string) string { return "" }
