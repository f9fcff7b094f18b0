package sessiontest

import (
	"encoding/json"
	"slices"
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
}

// Fail adds a fault.
func (s *Server) Fail(f Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = append(s.faults, &f)
}

// FailAck sets how acknowledgements go wrong.
func (s *Server) FailAck(f AckFault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ack = f
}

// Heal removes all faults.
func (s *Server) Heal() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults, s.ack, s.mute = nil, AckFault{}, false
}

// fault returns the fault for a request, or nil.
func (s *Server) fault(method string, params json.RawMessage) *Fault {
	var p struct {
		URI    string  `json:"uri"`
		Cursor *string `json:"cursor"`
	}
	_ = json.Unmarshal(params, &p)
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, f := range s.faults {
		if f.Method != "" && f.Method != method || f.URI != "" && f.URI != p.URI || f.Page > 0 && f.Page != s.pageOf(p.Cursor) {
			continue
		}
		hit := *f
		if f.Times > 0 {
			if f.Times--; f.Times == 0 {
				s.faults = slices.Delete(s.faults, i, i+1)
			}
		}
		return &hit
	}
	return nil
}
