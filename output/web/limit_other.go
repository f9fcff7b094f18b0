//go:build !unix

package web

import "math"

// mostConns returns how many connections the limit of open files allows; here there is none.
func mostConns() int { return math.MaxInt32 }
