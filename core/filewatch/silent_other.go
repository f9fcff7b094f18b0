//go:build !linux

package filewatch

// silentFS is not implemented here; the slow poll finds what events miss.
func silentFS(string) string { return "" }
