// Package fair bounds what clients use together so that none of them can use up what the
// others need.
//
// A [Limit] counts by principal, which stands for the clients with the same credentials. While
// less than its maximum is in use, every principal may take more. From then on only those may
// that have less than their share: the maximum, divided by the principals that use anything.
// So nothing is reserved for principals that are not there, one alone may use everything, a new
// one gets something unless there are more principals than the maximum, and nobody loses what it
// has. What all use together stays below
// the maximum times 1 + ln(principals).
package fair

// Limit counts what principals use. Set Max before the first use; the caller must guard
// concurrent calls. The zero value allows nothing.
type Limit struct {
	Max int

	all int
	of  map[string]int // what each principal uses; never 0
}

// Room reports whether the principal may take one more.
func (l *Limit) Room(principal string) bool {
	mine, principals := l.of[principal], len(l.of)
	if mine == 0 {
		principals++
	}
	return l.all < l.Max || mine < l.Max/principals
}

// Take counts one more for the principal; it reports false, without counting, if there is no
// room.
func (l *Limit) Take(principal string) bool {
	if !l.Room(principal) {
		return false
	}
	if l.of == nil {
		l.of = map[string]int{}
	}
	l.all++
	l.of[principal]++
	return true
}

// Give counts one less for the principal.
func (l *Limit) Give(principal string) {
	l.all--
	if l.of[principal]--; l.of[principal] == 0 {
		delete(l.of, principal)
	}
}

// All returns how much all principals use together.
func (l *Limit) All() int { return l.all }
