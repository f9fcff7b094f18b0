package tracker

import (
	"context"
	"sync"
)

// jobs are the short-lived goroutines of one session: syncs, reads, pings and calls. They
// continue after the worker's context has ended, while the worker drains. They send their
// results on channels with capacity for all of them, so that no job waits for the worker.
type jobs struct {
	ctx    context.Context // ends before the session is closed
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func newJobs() *jobs {
	j := &jobs{}
	j.ctx, j.cancel = context.WithCancel(context.Background())
	return j
}

// start runs a job.
func (j *jobs) start(job func(context.Context)) { j.wg.Go(func() { job(j.ctx) }) }
