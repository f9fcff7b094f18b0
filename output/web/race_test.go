//go:build race

package web_test

// fewer is by what the numbers of connections of a herd are divided: the race detector makes
// everything many times slower.
const fewer = 5
