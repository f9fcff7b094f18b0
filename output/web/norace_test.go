//go:build !race

package web_test

const fewer = 1
