//go:build !race

package commands

const raced = false
