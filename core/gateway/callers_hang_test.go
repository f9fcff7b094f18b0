package gateway

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// If a tool that did not ask before asks in simultaneous calls of several clients, each call ends within
// a second: with the answer of its client, or with an error that says why. Then each client has a
// session of its own.
func TestCallersNeverHang(t *testing.T) {
	together(t, func(a *asking, w *fixture) {
		var people []*person
		for i := range 8 {
			people = append(people, w.person(fmt.Sprint("p", i), ""))
		}
		people[0].calls("")
		for round := range 2 {
			var all sync.WaitGroup
			for _, p := range people {
				all.Go(func() {
					began := time.Now()
					got := p.calls("sampling/createMessage")
					refused := strings.Contains(got, "several clients share this session")
					if took := time.Since(began); took > time.Second || !by(p.name, got) && (round > 0 || !refused) {
						w.Errorf("round %d: %s after %s: %s", round, p.name, took, got)
					}
				})
			}
			all.Wait()
		}
		w.wantSessions(a, len(people))
	})
}
