//go:build !race

package sqlitelog

const raced = false
