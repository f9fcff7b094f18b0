package process

import "testing"

// BenchmarkKillDescendants looks for the descendants of a child that has none, as each Stop does.
func BenchmarkKillDescendants(b *testing.B) {
	for range b.N {
		killDescendants("nobody")
	}
}
