//go:build !race

package web_test

const slowdown = 1
