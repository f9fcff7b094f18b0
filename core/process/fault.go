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
	LongLine   FaultKind = iota // a message longer than maxSkipped times MaxLine bytes
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

// LongLineError means that a message was longer than MaxLine of the [Spec]. It was skipped.
type LongLineError struct {
	// Head and Tail are its first and its last bytes.
	Head, Tail []byte
	Limit      int
}

func (e *LongLineError) Error() string {
	return fmt.Sprintf("stdout: a line of more than %d bytes was skipped", e.Limit)
}
