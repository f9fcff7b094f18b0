// Package calls describes the calls of tools that clients make through a gateway: who called what, how
// it ended and how long it took, but neither arguments nor results.
//
// A call is recorded once, when the client is answered; one that asks the client for input, when the
// client is finally answered. A [Store] keeps the newest calls: [Memory], or the log in
// core/journal/sqlitelog. Adding a call never waits. While a Store cannot store, it drops calls, and says so.
package calls

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/url"
	"slices"
	"sort"
	"strconv"
	"sync"
	"time"
)

// Outcome is how a call ended.
type Outcome string

// The outcomes of calls.
const (
	OK        Outcome = "ok"
	ToolError Outcome = "toolError" // the tool answered, with isError
	Error     Outcome = "error"     // the client received an error of the protocol, or no answer
)

// Words returns the outcome in words for people.
func (o Outcome) Words() string {
	if o == ToolError {
		return "tool error"
	}
	return string(o)
}

// Took returns a duration with three digits or so.
func Took(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	}
	return fmt.Sprintf("%.1f s", d.Seconds())
}

// Call is the record of one call. Client, ServerID and Tool are printable and of limited length.
type Call struct {
	// ID is the time of the answer in microseconds since 1970, or a little more so that ids of a store
	// rise and are unique. The store sets it.
	ID       int64
	Client   string // name that the client gives itself
	Session  string // short random id of the client's session; empty for a client without one
	ServerID string // empty if no server that is served has the tool
	Tool     string // the server's own name for it
	Outcome  Outcome
	Code     int           // code of the error; 0 if there is none, or the client did not wait for an answer
	Duration time.Duration // until the answer
	Bytes    int64         // size of the result
}

// Time returns when the call was answered.
func (c *Call) Time() time.Time { return time.UnixMicro(c.ID).UTC() }

// timeFormat is event.TimeFormat, which this package need not import.
const timeFormat = "2006-01-02T15:04:05.000Z"

// document is the JSON form of a Call.
type document struct {
	ID       int64   `json:"id"`
	Time     string  `json:"time"`
	Client   string  `json:"client"`
	Session  string  `json:"session"`
	ServerID string  `json:"serverId"`
	Tool     string  `json:"tool"`
	Outcome  Outcome `json:"outcome"`
	Code     int     `json:"code,omitempty"`
	Ms       float64 `json:"ms"`
	Bytes    int64   `json:"bytes"`
}

// MarshalJSON returns the call as the command and the API print it.
func (c Call) MarshalJSON() ([]byte, error) {
	return json.Marshal(document{c.ID, c.Time().Format(timeFormat), c.Client, c.Session, c.ServerID, c.Tool, c.Outcome, c.Code, milliseconds(c.Duration), c.Bytes})
}

// UnmarshalJSON reads what MarshalJSON returns.
func (c *Call) UnmarshalJSON(b []byte) error {
	var d document
	err := json.Unmarshal(b, &d)
	*c = Call{d.ID, d.Client, d.Session, d.ServerID, d.Tool, d.Outcome, d.Code, time.Duration(math.Round(d.Ms*1000)) * time.Microsecond, d.Bytes}
	return err
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// MaxRead is the largest number of calls that one Read returns.
const MaxRead = 1000

// Query selects calls. Zero fields select all.
type Query struct {
	After                  int64 // calls with a higher ID
	ServerID, Tool, Client string
	Failed                 bool // calls whose outcome is not OK
	// Newest selects only that many of the newest calls. Without it, Read returns the oldest ones.
	Newest int
}

// Limit returns the number of calls to return.
func (q *Query) Limit() int { return min(cmp.Or(q.Newest, MaxRead), MaxRead) }

func (q *Query) selects(c *Call) bool {
	return c.ID > q.After && (q.ServerID == "" || c.ServerID == q.ServerID) && (q.Tool == "" || c.Tool == q.Tool) && (q.Client == "" || c.Client == q.Client) && (!q.Failed || c.Outcome != OK)
}

// Store keeps the newest calls. Its methods are safe for concurrent use.
type Store interface {
	// Add adds a call and never waits. The store sets its ID.
	Add(c Call)
	// Read returns the calls that a query selects, oldest first, and at most q.Limit() of them.
	Read(ctx context.Context, q Query) ([]Call, error)
}

// NextID returns the id of a call that is answered now, after the one with the id last.
func NextID(last int64) int64 { return max(last+1, time.Now().UnixMicro()) }

// Memory keeps the newest calls in memory. The zero value is ready to use.
type Memory struct {
	mu    sync.Mutex
	calls []Call // oldest first; the last maxMemory count
	last  int64  // id of the newest
}

// maxMemory is the number of calls that Memory keeps.
const maxMemory = 10_000

// Add implements [Store].
func (m *Memory) Add(c Call) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = NextID(m.last)
	c.ID = m.last
	if len(m.calls) == 2*maxMemory { // seldom, so that most additions move nothing
		m.calls = append(m.calls[:0], m.calls[maxMemory:]...)
	}
	m.calls = append(m.calls, c)
}

// Read implements [Store].
func (m *Memory) Read(_ context.Context, q Query) ([]Call, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	kept := m.calls[max(0, len(m.calls)-maxMemory):]
	var found []Call
	for i := range kept {
		if q.Newest > 0 {
			i = len(kept) - 1 - i
		}
		if len(found) == q.Limit() {
			break
		}
		if q.selects(&kept[i]) {
			found = append(found, kept[i])
		}
	}
	if q.Newest > 0 {
		slices.Reverse(found)
	}
	return found, nil
}

// ToolStats sums up the calls of one tool.
type ToolStats struct {
	ServerID   string  `json:"serverId"`
	Tool       string  `json:"tool"`
	Calls      int     `json:"calls"`
	ToolErrors int     `json:"toolErrors"`
	Errors     int     `json:"errors"`
	P50        float64 `json:"p50Ms"`
	P95        float64 `json:"p95Ms"`
}

// ByTool sums up calls by tool, those with most calls first.
func ByTool(list []Call) []ToolStats {
	type tool struct{ server, name string }
	times, stats := map[tool][]time.Duration{}, map[tool]*ToolStats{}
	for _, c := range list {
		key := tool{c.ServerID, c.Tool}
		s := stats[key]
		if s == nil {
			s = &ToolStats{ServerID: c.ServerID, Tool: c.Tool}
			stats[key] = s
		}
		s.Calls++
		switch c.Outcome {
		case ToolError:
			s.ToolErrors++
		case Error:
			s.Errors++
		}
		times[key] = append(times[key], c.Duration)
	}
	all := make([]ToolStats, 0, len(stats))
	for key, s := range stats {
		took := times[key]
		slices.Sort(took)
		s.P50, s.P95 = milliseconds(took[(len(took)+1)/2-1]), milliseconds(took[(len(took)*95+99)/100-1])
		all = append(all, *s)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := &all[i], &all[j]
		return cmp.Or(b.Calls-a.Calls, cmp.Compare(a.ServerID, b.ServerID), cmp.Compare(a.Tool, b.Tool)) < 0
	})
	return all
}

// Values returns the parameters of a request for the calls that a query selects. See [ParseQuery].
func (q *Query) Values() url.Values {
	v := url.Values{}
	for name, n := range map[string]int64{"after": q.After, "newest": int64(q.Newest)} {
		if n != 0 {
			v.Set(name, strconv.FormatInt(n, 10))
		}
	}
	for name, text := range map[string]string{"server": q.ServerID, "tool": q.Tool, "client": q.Client} {
		if text != "" {
			v.Set(name, text)
		}
	}
	if q.Failed {
		v.Set("failed", "1")
	}
	return v
}

// ParseQuery returns the query in the parameters of a request.
func ParseQuery(v url.Values) (q Query, err error) {
	number := func(name string) int64 {
		text := v.Get(name)
		n, bad := strconv.ParseInt(cmp.Or(text, "0"), 10, 64)
		if bad != nil || n < 0 {
			err = fmt.Errorf("%s must be a number", name)
		}
		return n
	}
	q = Query{After: number("after"), Newest: int(min(number("newest"), MaxRead)), ServerID: v.Get("server"), Tool: v.Get("tool"), Client: v.Get("client"), Failed: v.Get("failed") == "1"}
	return q, err
}
