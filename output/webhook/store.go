package webhook

import "context"

// store is where subscriptions are made and removed: in this process, or by any of those
// that share a cluster.
type store interface {
	// durable reports whether they outlive the process.
	durable() bool
	// keep makes a subscription, or refreshes the one with that id. before is what there
	// was, nil if there was none. The error may be a *fullError.
	keep(ctx context.Context, next record) (before *record, after record, err error)
	// answered says that the answer that made it was written. It does not block.
	answered(r record)
	// remove removes one that its client does not want any more.
	remove(ctx context.Context, id string) (found bool, err error)
	// drop removes one that has ended, as far as this process knows. It fails if it was refreshed
	// meanwhile.
	drop(ctx context.Context, sub *subscription) error
	// run calls Subscriptions.deliverAll whenever it is this process that delivers, until
	// ctx ends.
	run(ctx context.Context) error
	// snapshotLocked is what delivering changes, to be stored.
	snapshotLocked() stored
}

// fullError says that a limit is reached.
type fullError struct {
	limit string
	max   int
}

func (e *fullError) Error() string { return "too many " + e.limit }

// limit returns why no subscription may be made when a client has own of all.
func (o *Options) limit(own, all int) *fullError {
	switch {
	case own >= o.MaxEach:
		return &fullError{"webhook subscriptions of a client", o.MaxEach}
	case all >= o.MaxTotal:
		return &fullError{"webhook subscriptions", o.MaxTotal}
	}
	return nil
}
