package sessiontest

import (
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// Fault is how a request goes wrong. The first fault that matches decides.
type Fault struct {
	Method string // "": every request
	URI    string // only requests with this params.uri
	Page   int    // only this page of a list, from 1
	Times  int    // how often; 0: always

	Silent  bool          // never answer
	Delay   time.Duration // answer later, and right if nothing else is set
	Old     bool          // with Delay, on stdio: the answer is what was right when asked
	Code    int           // JSON-RPC error
	Message string
	Data    any
	Error   json.RawMessage // this member "error" instead

	Status int               // HTTP status of the answer
	Header map[string]string // HTTP headers of the answer
	Body   string            // HTTP body instead of JSON-RPC

	Result any // this result instead of the right one
}

// AckFault is how an acknowledgement goes wrong.
type AckFault struct {
	Never    bool     // no acknowledgement
	Hide     []string // URIs left out
	NoTools  bool
	Reject   []string // URIs because of which the whole listen is refused
	Name     bool     // the refusal names the URI
	EndAfter bool     // the listen ends gracefully right after
	Early    bool     // an update precedes the acknowledgement
	Deaf     bool     // nothing is sent after the acknowledgement
}

// faults are the ways in which requests go wrong.
type faults struct {
	mu   sync.Mutex
	list []*Fault
	ack  AckFault
}

// Fail adds a fault.
func (f *faults) Fail(next Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list = append(f.list, &next)
}

// FailAck sets how acknowledgements go wrong.
func (f *faults) FailAck(ack AckFault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ack = ack
}

func (f *faults) clear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.list, f.ack = nil, AckFault{}
}

func (f *faults) acknowledgement() AckFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ack
}

// fault returns the fault for a request, or nil.
func (s *Fake) fault(method string, params json.RawMessage) *Fault {
	var p struct {
		URI    string  `json:"uri"`
		Cursor *string `json:"cursor"`
	}
	_ = json.Unmarshal(params, &p)
	return s.take(method, p.URI, s.pageOf(p.Cursor))
}

// take returns the first fault that matches, and counts its use.
func (f *faults) take(method, uri string, page int) *Fault {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, one := range f.list {
		if one.Method != "" && one.Method != method || one.URI != "" && one.URI != uri || one.Page > 0 && one.Page != page {
			continue
		}
		hit := *one
		if one.Times > 0 {
			if one.Times--; one.Times == 0 {
				f.list = slices.Delete(f.list, i, i+1)
			}
		}
		return &hit
	}
	return nil
}
