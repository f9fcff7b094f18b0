package process

import "fmt"

// FaultError means that the child exceeded a limit of its [Spec] on stdout and was
// terminated.
type FaultError struct {
	// Kind is the limit that was exceeded.
	Kind FaultKind
	// Limit is the limit that was exceeded, in the unit of Kind.
	Limit int
}

// FaultKind is one limit of a [Spec].
type FaultKind int

// The limits.
const (
	LongLine   FaultKind = iota // a message longer than MaxLine bytes
	NoiseLines                  // more than MaxNoiseLines noise lines in a row
	NoiseBytes                  // more than MaxNoiseBytes bytes of noise in a row
)

func (e *FaultError) Error() string {
	switch e.Kind {
	case LongLine:
		return fmt.Sprintf("stdout: a line is longer than %d bytes", e.Limit)
	case NoiseLines:
		return fmt.Sprintf("stdout: more than %d lines in a row are not JSON-RPC", e.Limit)
	default:
		return fmt.Sprintf("stdout: more than %d bytes in a row are not JSON-RPC", e.Limit)
	}
}
