package webhook

import (
	"context"
	"slices"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/mcpevents"
	"github.com/mcptrack/mcptrack/core/standardwebhooks"
)

// oldSecretFor is how long the previous secret of an endpoint also signs messages.
const oldSecretFor = 5 * time.Minute

// endpoint is a webhook in the config, or a subscription. deliverer.mu guards its fields.
type endpoint struct {
	progress
	*destination
	secret, old *standardwebhooks.Secret // nil if there is none
	oldUntil    time.Time

	conf *config.Webhook // if it is a webhook in the config
	// sub is the stored record of a subscription, which is replaced, not modified; nil if it is a webhook
	// in the config.
	sub      *record
	revision uint64 // of the record
	problem  error  // why the record with this revision cannot be used; nil if it can
	// notBefore is when events may be sent, if the response that creates the subscription may not have
	// been written yet.
	notBefore time.Time

	responder responder
	count     Stats
	oldest    time.Time // time of the first undelivered event; zero if there is none
	removed   bool
	stop      context.CancelCauseFunc // ends the current step; nil if there is none
	reader    *mcpevents.Reader       // of the worker that was started last
	worker    *worker                 // that may change progress: the one that was started last, unless something else has changed it since
	waiting   int                     // events that wait, of those that the worker has read
	results   []Result                // of the last attempts, newest first
}

// destination is where and how events are delivered. It is replaced, not modified.
type destination struct {
	url       string
	private   bool   // an operator's URL: non-public addresses are allowed
	id        string // of a subscription, which messages contain
	format    format
	match     func(*mcpevents.Occurrence) bool
	settle    time.Duration   // how long server states must last; see stateDebouncer
	schedule  []time.Duration // delay before each attempt
	patient   bool            // see the package documentation
	maxReplay uint64          // limit on the events to catch up on; 0 means no limit
}

func (d *destination) message(id string, body []byte) *message {
	return &message{url: d.url, id: id, body: body, contentType: d.format.contentType, subscription: d.id, private: d.private}
}

// secrets returns the secrets that sign an attempt; none if messages are not signed.
func (e *endpoint) secrets() (all []standardwebhooks.Secret) {
	if e.secret != nil {
		all = append(all, *e.secret)
	}
	if e.old != nil && time.Now().Before(e.oldUntil) {
		all = append(all, *e.old)
	}
	return all
}

// resumeLocked forgets that deliveries failed: what waits is sent immediately.
func (e *endpoint) resumeLocked() {
	e.Status = status{LastDelivery: e.Status.LastDelivery}
	e.Later = slices.Clone(e.Later)
	for i := range e.Later {
		e.Later[i].Tries, e.Later[i].Due = 0, time.Time{}
	}
	e.worker = nil
	e.wakeLocked()
}

// wakeLocked makes the endpoint's goroutine determine its phase again.
func (e *endpoint) wakeLocked() {
	if e.stop != nil {
		e.stop(errChanged)
	}
}
