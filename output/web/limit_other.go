//go:build !unix

package web

import "math"

// mostConns returns how many connections the limit of open files allows; this system has none.
func mostConns() int { return math.MaxInt32 }
