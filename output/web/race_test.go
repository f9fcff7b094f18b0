//go:build race

package web_test

// slowdown divides the numbers of connections of a test: the race detector makes everything many
// times slower.
const slowdown = 5
