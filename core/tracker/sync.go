package tracker

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/session"
)

// syncJob is one sync of a server's lists and subscriptions: a value that has all it needs and
// runs outside the worker's goroutine. It subscribes to the known resources, lists, and
// subscribes again if the lists changed the set: in this order, so that no change falls between
// two steps.
type syncJob struct {
	syncRequest
	scope      scope
	known      map[catalog.Kind]catalog.List // the wanted lists before the sync
	clients    []string                      // resources that clients subscribe to
	filter     session.Filter                // the subscription to make before listing
	subscribed map[string]struct{}           // resources that the server was asked to push
	first      bool                          // whether it is the first sync of the session
}

// syncResult is the result of a syncJob.
type syncResult struct {
	job      syncJob
	lists    map[catalog.Kind]catalog.List
	listErrs map[catalog.Kind]error

	// asked is the last subscription that was made, or would have been if the server supported
	// subscriptions; ack is the answer to it. Both are zero if made is false.
	asked     session.Filter
	ack       session.Ack
	made      bool
	subscribe error // why the subscription failed

	interrupted  bool // for a moment there was no subscription
	unlisted     bool // the last such moment was after the lists were loaded
	unresponsive bool // no request was answered
}

// newSyncJob returns the job for a request.
func newSyncJob(r syncRequest, sc scope, lists map[catalog.Kind]catalog.List, clients []string) syncJob {
	job := syncJob{syncRequest: r, scope: sc, known: map[catalog.Kind]catalog.List{}, clients: clients}
	for _, k := range sc.kinds() {
		if job.all {
			job.list([]catalog.Kind{k}, event.CauseResync)
		}
		job.known[k] = lists[k]
	}
	maps.DeleteFunc(job.lists, func(k catalog.Kind, _ event.Cause) bool { _, wanted := job.known[k]; return !wanted })
	job.filter = sc.filter(job.resources(lists[catalog.Resources]))
	return job
}

// resources returns the URIs to track: those selected from the list, those that the
// config includes by their full URI, and those that clients subscribed to.
func (j *syncJob) resources(list catalog.List) []string { return j.scope.resources(list, j.clients) }

// run does the job.
func (j syncJob) run(ctx context.Context, s *session.Session) syncResult {
	r := syncResult{job: j, lists: map[catalog.Kind]catalog.List{}, listErrs: map[catalog.Kind]error{}}
	r.run(ctx, s)
	if j.first && len(r.lists) == 0 && (len(r.listErrs) > 0 || r.subscribe != nil) {
		r.unresponsive = !responds(ctx, s)
	}
	return r
}

// responds reports whether a server that answered no request of a sync gives a sign of life: if
// it refuses, or answers nonsense, it stays connected.
func responds(ctx context.Context, s *session.Session) bool {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return s.Ping(ctx) == nil
}

// maxInterruptions bounds how often one sync subscribes anew because the set of resources
// changes whenever it is listed; the next sync, after a wait, continues.
const maxInterruptions = 3

func (r *syncResult) run(ctx context.Context, s *session.Session) {
	subscribed := r.job.subscribed
	if r.job.subscribe {
		r.subscribeTo(ctx, s, r.job.filter)
		if r.subscribe != nil && !isUnsupported(r.subscribe) {
			return
		}
		subscribed = setOf(r.job.filter.URIs)
		if r.interrupted {
			r.job.list(slices.Collect(maps.Keys(r.job.known)), event.CauseResync)
		}
	}
	r.listAll(ctx, s, slices.Collect(maps.Keys(r.job.lists)))
	for again := 0; ; again++ {
		resources, ok := r.lists[catalog.Resources]
		if !ok {
			return
		}
		filter := r.job.filter
		if r.job.scope.subscribes() {
			filter.URIs = r.job.resources(resources)
		}
		if isUnsupported(r.subscribe) {
			r.asked.URIs = filter.URIs // the server has no subscriptions: these URIs are polled
		}
		if r.subscribe != nil || sameSet(filter.URIs, subscribed) && (!r.job.subscribe || r.made) {
			return
		}
		r.subscribeTo(ctx, s, filter)
		subscribed = setOf(filter.URIs)
		if r.subscribe != nil || !r.ack.Interrupted {
			return
		}
		if again == maxInterruptions {
			r.unlisted = true
			return
		}
		// There was a moment without a subscription: list everything again.
		r.listAll(ctx, s, slices.Collect(maps.Keys(r.job.known)))
	}
}

func (r *syncResult) subscribeTo(ctx context.Context, s *session.Session, f session.Filter) {
	r.asked, r.made = f, true
	r.ack, r.subscribe = s.Subscribe(ctx, f)
	if r.ack.Interrupted && r.subscribe == nil || isUnsupported(r.subscribe) && r.ack.Interrupted {
		r.interrupted = true
	}
}

// listAll loads lists concurrently.
func (r *syncResult) listAll(ctx context.Context, s *session.Session, kinds []catalog.Kind) {
	var (
		mu    sync.Mutex // guards the maps of r
		lists sync.WaitGroup
	)
	for _, k := range kinds {
		lists.Go(func() {
			list, err := loadList(ctx, s, k, len(r.job.known[k]) > 0)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				r.listErrs[k] = err
			} else {
				r.lists[k] = list
				delete(r.listErrs, k)
			}
		})
	}
	lists.Wait()
}

// confirmEmpty is the time after which a list that became empty is requested once more: some
// servers replace a list by clearing it first.
const confirmEmpty = 250 * time.Millisecond

func loadList(ctx context.Context, s *session.Session, k catalog.Kind, had bool) (catalog.List, error) {
	list, err := s.List(ctx, k)
	if isUnsupported(err) {
		return nil, nil // the capability covers it, but the server has no such list
	}
	if err != nil || len(list) > 0 || !had {
		return list, err
	}
	wait, cancel := context.WithTimeout(ctx, confirmEmpty)
	defer cancel()
	<-wait.Done()
	return s.List(ctx, k)
}

// err returns what failed in the sync, nil if nothing did.
func (r *syncResult) err() error {
	errs := slices.Collect(maps.Values(r.listErrs))
	if r.subscribe != nil && !isUnsupported(r.subscribe) {
		errs = append(errs, r.subscribe)
	}
	return errors.Join(errs...)
}

// unanswered reports whether err means that a request got no answer from the server, which may
// be dead. An HTTP status of 500 or more is not an answer of the server: it may come from a
// load balancer.
func unanswered(err error) bool {
	if err == nil || isAnswer(err) || isUnsupported(err) || errors.Is(err, session.ErrAuth) {
		return false
	}
	if _, ok := errors.AsType[*session.RetryAfter](err); ok {
		return false
	}
	if h, ok := errors.AsType[*session.HTTPError](err); ok {
		return h.Status >= http.StatusInternalServerError
	}
	return true
}

// unanswered reports whether any request of the sync was not answered.
func (r *syncResult) unanswered() bool {
	for _, err := range r.listErrs {
		if unanswered(err) {
			return true
		}
	}
	return unanswered(r.subscribe)
}

// isUnsupported reports whether the server lacks what was requested.
func isUnsupported(err error) bool { return errors.Is(err, session.ErrUnsupported) }
