// Package relay connects an MCP client that uses stdio to the daemon, and keeps the client connected
// when the daemon ends and another one takes over.
//
// # Promises
//
//   - Messages are forwarded unchanged and in order.
//   - A request is sent at most once. If the connection is lost before the response arrives, the
//     client receives an error that says that the request may have been executed. Only requests
//     without effect on the server are repeated: initialize, logging/setLevel, resources/subscribe
//     and subscriptions/listen. The client receives one response to each.
//   - After a reconnect, the client is told that a list changed if it differs from the list that the
//     client has seen, or if the client's request for it was lost; once for each list.
//   - After a loss, the client's requests wait for another daemon until [Options.Patience] has passed.
//     From then on they are answered with an error that contains the reason, and notifications and
//     responses are dropped.
//   - A daemon that ends in an orderly way says so. It answers what was sent, and what the client sends
//     from then on waits for the next daemon, so that nothing is lost. If the daemon hands over to
//     another one, the client's requests wait longer, see [Options.Handover].
//   - Requests of a lost daemon are cancelled at the client, and responses to them are dropped.
//   - After the client has closed its output, the relay ends when the daemon has answered, and at the
//     latest after [Options.LastAnswers].
//
// Memory is bounded by the size of one message in each direction, and by limits on the number of
// pending requests and subscriptions.
package relay

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
	"github.com/mcptrack/mcptrack/core/nowait"
)

// A Connect connects to the daemon, starting one if necessary, and completes the handshake. From then
// on the connection carries MCP messages, one per line.
type Connect func(ctx context.Context) (io.ReadWriteCloser, error)

// Options configure a relay.
type Options struct {
	In      io.Reader // messages of the client
	Out     io.Writer // messages for the client
	Connect Connect
	// Patience is how long after a loss requests wait for another daemon; default 4 s, so that each is answered
	// within 5 s.
	Patience time.Duration
	// Handover is the patience after a daemon that hands over to another one; default 30 s. The other one
	// is already running then, and slow at most because the machine is busy.
	Handover time.Duration
	// LastAnswers is how long the daemon may answer after the client has closed In; default 10 s.
	LastAnswers time.Duration
	// Lost is called when the connection is lost, and when it cannot be restored; it may be nil.
	Lost func(error)
}

// MaxRequest is the size in bytes of the largest request that the daemon accepts. Larger ones are
// answered with an error, because the daemon would not read their id.
const MaxRequest = 16 << 20

const (
	maxMessage       = 64 << 20 // bytes in one message
	maxPending       = 10_000   // requests without a response, in each direction
	maxSubscriptions = 10_000

	// resumeTimeout is how long a daemon may take to answer a repeated initialize request.
	resumeTimeout = 30 * time.Second
	// endTime is how long a daemon that ends may answer what was sent before.
	endTime = 6 * time.Second
	// lastWrite is how long the last Write to the client may take after the relay has ended.
	lastWrite = time.Second
	// steady is how long a connection lasts before the waits between attempts begin anew. A daemon
	// that ends soon after its start is therefore started less and less often.
	steady = 10 * time.Second
)

// errClientLeft ends the relay after the client has closed In.
var errClientLeft = errors.New("the client disconnected")

// Run relays messages until the client closes In and the daemon has answered everything, or until
// ctx ends. It returns nil in the first case. If the first connection fails, it returns that error
// and has read nothing from In. A blocked Read from In, or Write to Out, may continue after Run has
// returned.
func Run(ctx context.Context, opts Options) error {
	opts.Patience = cmp.Or(opts.Patience, 4*time.Second)
	opts.Handover = cmp.Or(opts.Handover, 30*time.Second)
	opts.LastAnswers = cmp.Or(opts.LastAnswers, 10*time.Second)
	first, err := opts.Connect(ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &relay{opts: opts, ctx: ctx, cancel: cancel, outs: make(chan []byte), up: make(chan struct{}), down: time.Now(),
		pending: map[string]string{}, repeated: map[string]bool{}, asked: map[string]bool{}, stale: map[string]bool{},
		listens: map[string][]byte{}, subscribed: map[string][]byte{}, seen: map[string]string{}}
	written := make(chan struct{}) // closed after the last Write
	go func() {
		defer close(written)
		r.write()
	}()
	go r.fromClient() // ends with In, which may outlive Run
	r.fromDaemon(first)
	select {
	case <-written:
	case <-time.After(lastWrite): // the client does not read
	}
	if err := context.Cause(ctx); !errors.Is(err, errClientLeft) {
		return err
	}
	return nil
}

// Refuse answers the first request of a client that cannot be served with an error, if the client sends it
// within a second. A blocked Read from in, or Write to out, may continue after Refuse has returned.
func Refuse(ctx context.Context, in io.Reader, out io.Writer, why, hint string) {
	if hint != "" {
		why += "; " + hint
	}
	answered := make(chan struct{}) // closed when the request was answered, or when there is none
	go func() {
		defer close(answered)
		line, _ := newLineReader(in).next()
		if m, isRequest, _ := parse(line); isRequest {
			_, _ = out.Write(failure(m.ID, why)) // an error means that the client has left
		}
	}()
	select {
	case <-answered:
	case <-ctx.Done():
	case <-time.After(lastWrite):
	}
}

// relay is the state of one client. Three goroutines use it: fromClient forwards the client's
// messages, fromDaemon owns the connections and forwards the daemon's messages, and write writes to
// the client.
type relay struct {
	opts   Options
	ctx    context.Context
	cancel context.CancelCauseFunc
	// outs passes messages to write. Unbuffered, so that a client that does not read delays the
	// daemon. Never closed: write ends with ctx.
	outs chan []byte

	sending sync.Mutex // held while a message of the client is sent; locked before mu

	mu   sync.Mutex // guards the fields below; never held during I/O
	conn io.ReadWriteCloser
	up   chan struct{} // closed when conn is set; replaced when it is lost
	left bool          // the client has closed In
	down time.Time     // when the last connection was lost, or the relay began
	back time.Time     // when the connection that is being prepared began; zero if there is none
	why  error         // why there is no connection
	// handover is set from when a daemon hands over until the client is connected again.
	handover bool
	// failing is set while requests without a response are answered. Until then the relay does not end.
	failing bool

	// State of the current connection:
	ending   bool              // the daemon ends, and answers what was sent
	pending  map[string]string // methods of the client's requests without a response, by id
	repeated map[string]bool   // ids of repeated requests, whose responses are dropped
	asked    map[string]bool   // ids of the daemon's requests without a response

	// State of the client:
	stale       map[string]bool   // ids of requests of lost daemons without a response
	initialize  []byte            // the initialize request; nil for a modern client
	initialized []byte            // the notification that followed
	level       []byte            // the last logging/setLevel request
	subscribed  map[string][]byte // resources/subscribe requests, by URI
	listens     map[string][]byte // open subscriptions/listen requests, by id
	// seen contains a hash of each list that the client has seen, by its name; "" if the client's
	// request for it was lost.
	seen    map[string]string
	compare bool     // the lists of a new connection are to be compared with seen
	changed []string // names of the lists of which the client must be told that they changed
}

// message contains the members of a JSON-RPC message that matter here.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Error  json.RawMessage `json:"error"`
	Track  *control        `json:"mcptrack"` // set in a line that is for the relay
}

// control is a line of the daemon for the relay.
type control struct {
	// Lists contains hashes of the lists that the following messages announce or contain. A
	// connection begins with it. The daemon chooses the hashes.
	Lists map[string]string `json:"lists"`
	// Ends means that the daemon ends. It answers what it receives until the relay closes its sending
	// side, which the relay does next.
	Ends bool `json:"ends"`
	// Handover means that another daemon takes over from one that ends.
	Handover bool `json:"handover"`
}

// params contains the parameters that matter here.
type params struct {
	Params struct {
		URI       string          `json:"uri"`
		RequestID json.RawMessage `json:"requestId"`
		// Notifications of a subscriptions/listen request: booleans, and lists of URIs and tasks.
		Notifications map[string]any `json:"notifications"`
	} `json:"params"`
}

// parse returns the members of a message. Lines that are not JSON objects are forwarded like
// notifications, and the daemon rejects them.
func parse(line []byte) (m message, isRequest, isResponse bool) {
	if json.Unmarshal(bytes.TrimPrefix(line, []byte("\ufeff")), &m) != nil { // some clients begin with a byte order mark
		return message{}, false, false
	}
	hasID := len(m.ID) > 0 && string(m.ID) != "null"
	return m, hasID && m.Method != "", hasID && m.Method == ""
}

func paramsOf(line []byte) (p params) {
	_ = json.Unmarshal(line, &p) // invalid parameters have no effect here
	return p
}

// write writes to the client.
func (r *relay) write() {
	out := nowait.NewWriter(r.opts.Out)
	for {
		select {
		case <-r.ctx.Done():
			return
		case line := <-r.outs:
			if _, err := out.Write(line); err != nil {
				r.cancel(fmt.Errorf("write to the client: %w", err))
				return
			}
		}
	}
}

// toClient passes a line to write. It returns false if the relay ends.
func (r *relay) toClient(line []byte) bool {
	select {
	case <-r.ctx.Done():
		return false
	case r.outs <- line:
		return true
	}
}

// fromClient forwards the client's messages.
func (r *relay) fromClient() {
	lines := newLineReader(nowait.NewReader(r.opts.In))
	for {
		line, err := lines.next()
		if err != nil && len(line) > 0 {
			line = append(line, '\n')
		}
		if len(line) > 0 && !r.forward(line) {
			return
		}
		if err != nil {
			r.clientLeft(err)
			return
		}
	}
}

// clientLeft tells the daemon that no more messages follow. The relay ends when the daemon has
// answered the pending requests.
func (r *relay) clientLeft(err error) {
	if !errors.Is(err, io.EOF) {
		r.cancel(fmt.Errorf("read from the client: %w", err))
		return
	}
	r.mu.Lock()
	r.left = true
	conn, waits := r.conn, r.failing || r.ending
	r.mu.Unlock()
	if conn == nil && !waits {
		r.cancel(errClientLeft)
		return
	}
	if conn != nil {
		closeWrite(conn)
	}
	select {
	case <-r.ctx.Done():
	case <-time.After(r.opts.LastAnswers):
		r.cancel(errClientLeft)
	}
}

// closeWrite closes the sending side of a connection, or all of it.
func closeWrite(conn io.ReadWriteCloser) {
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		return
	}
	_ = conn.Close()
}

// forward sends one message of the client to the daemon. It returns false if the relay ends.
func (r *relay) forward(line []byte) bool {
	m, isRequest, isResponse := parse(line)
	if isRequest && len(line) > MaxRequest {
		return r.toClient(failure(m.ID, fmt.Sprintf("the request is larger than %d MiB", MaxRequest>>20)))
	}
	for {
		r.sending.Lock()
		r.mu.Lock()
		conn, up, since := r.conn, r.up, r.down
		if r.ending { // the daemon still answers what was sent before
			since = since.Add(endTime)
		}
		if r.back.After(since) {
			since = r.back
		}
		if isResponse && r.stale[string(m.ID)] && !r.asked[string(m.ID)] {
			delete(r.stale, string(m.ID))
			r.mu.Unlock()
			r.sending.Unlock()
			return true
		}
		left := r.patience() - time.Since(since)
		full := isRequest && len(r.pending) >= maxPending
		if conn != nil && !full {
			r.note(m, line, isRequest, isResponse)
		}
		r.mu.Unlock()
		if conn != nil && !full {
			_, _ = conn.Write(line) // an error also ends the reads, see fromDaemon
		}
		r.sending.Unlock()
		switch {
		case full:
			return r.toClient(failure(m.ID, "too many requests are pending"))
		case conn != nil:
			return r.ctx.Err() == nil
		}
		if left <= 0 {
			return r.drop(m, line, isRequest)
		}
		patience := time.NewTimer(left)
		select {
		case <-r.ctx.Done():
			patience.Stop()
			return false
		case <-up:
			patience.Stop()
		case <-patience.C: // perhaps another connection is being prepared
		}
	}
}

// patience returns how long requests wait for a daemon. r.mu must be held.
func (r *relay) patience() time.Duration {
	if r.handover {
		return r.opts.Handover
	}
	return r.opts.Patience
}

// drop handles a message of the client that is not sent, because there is no daemon. It returns false
// if the relay ends.
func (r *relay) drop(m message, line []byte, isRequest bool) bool {
	r.mu.Lock()
	if m.Method == "notifications/cancelled" { // what it cancels is not repeated
		r.note(m, line, false, false)
	}
	why := r.why
	r.mu.Unlock()
	if !isRequest {
		return true
	}
	text := "the mcptrack daemon cannot be reached; the request was not sent"
	if why != nil {
		text += ": " + why.Error()
	}
	return r.toClient(failure(m.ID, text))
}

// note updates the state for a message that is about to be sent. r.mu must be held.
func (r *relay) note(m message, line []byte, isRequest, isResponse bool) {
	id := string(m.ID)
	switch {
	case isResponse:
		delete(r.asked, id)
	case isRequest:
		r.pending[id] = m.Method
	}
	switch m.Method {
	case "initialize":
		r.initialize = line
	case "notifications/initialized":
		r.initialized = line
	case "logging/setLevel":
		r.level = line
	case "resources/subscribe":
		if uri := paramsOf(line).Params.URI; len(r.subscribed) < maxSubscriptions {
			r.subscribed[uri] = line
		}
	case "resources/unsubscribe":
		delete(r.subscribed, paramsOf(line).Params.URI)
	case "subscriptions/listen":
		if isRequest {
			r.listens[id] = line
		}
	case "notifications/cancelled":
		cancelled := string(paramsOf(line).Params.RequestID)
		delete(r.listens, cancelled)
		delete(r.pending, cancelled) // a cancelled request receives no response
	}
}

// fromDaemon forwards the daemon's messages, and connects again whenever the connection is lost.
func (r *relay) fromDaemon(conn io.ReadWriteCloser) {
	delays := backoff.New(20*time.Millisecond, 2*time.Second)
	for {
		began := time.Now()
		err := reason(r.serve(conn))
		handover, ok := r.lost(err)
		if !ok || !r.giveUp(err) {
			return
		}
		if handover || time.Since(began) > steady {
			delays.Reset()
		}
		for {
			if !backoff.Sleep(r.ctx, delays.Next()) {
				return
			}
			if conn, err = r.opts.Connect(r.ctx); err == nil {
				break
			}
			r.report(err)
			if !r.giveUp(err) {
				return
			}
		}
	}
}

// giveUp answers the requests that were to be repeated, except listens, if no daemon could be reached
// for too long. They are not repeated then. It returns false if the relay ends.
func (r *relay) giveUp(why error) bool {
	r.mu.Lock()
	var lines [][]byte
	if time.Since(r.down) >= r.patience() {
		for _, id := range slices.Sorted(maps.Keys(r.pending)) {
			if _, listens := r.listens[id]; listens {
				continue
			}
			lines = append(lines, failure(json.RawMessage(id), "the mcptrack daemon cannot be reached: "+why.Error()))
			delete(r.pending, id)
			is := func(line []byte) bool {
				m, _, _ := parse(line)
				return string(m.ID) == id
			}
			if is(r.initialize) {
				r.initialize = nil
			}
			if is(r.level) {
				r.level = nil
			}
			maps.DeleteFunc(r.subscribed, func(_ string, line []byte) bool { return is(line) })
		}
	}
	r.mu.Unlock()
	for _, line := range lines {
		if !r.toClient(line) {
			return false
		}
	}
	return true
}

// serve uses one connection until it is lost, and returns why.
func (r *relay) serve(conn io.ReadWriteCloser) error {
	// Closing the connection interrupts a blocked read or write.
	defer context.AfterFunc(r.ctx, func() { _ = conn.Close() })()
	r.mu.Lock()
	r.back = time.Now()
	r.mu.Unlock()
	lines := newLineReader(conn)
	late := time.AfterFunc(resumeTimeout, func() { _ = conn.Close() })
	err := r.resume(conn, lines)
	if !late.Stop() && err == nil {
		err = errors.New("the daemon did not answer in time")
	}
	if err != nil {
		_ = conn.Close()
		return err
	}
	// The daemon answers while the requests to repeat are written, so both run concurrently.
	var admission sync.WaitGroup
	admission.Go(func() { r.admit(conn) })
	if err = context.Cause(r.ctx); r.announce() {
		err = r.receive(lines, func(handover bool) { admission.Go(func() { r.finish(conn, handover) }) })
	}
	_ = conn.Close()
	admission.Wait()
	return err
}

// reason returns why there is no connection, in the words of users.
func reason(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
		return errors.New("it ended")
	}
	return err
}

func (r *relay) report(err error) {
	r.mu.Lock()
	r.why = err
	r.mu.Unlock()
	if r.opts.Lost != nil && r.ctx.Err() == nil {
		r.opts.Lost(err)
	}
}

// receive forwards messages until the connection is lost. It calls ends if the daemon ends.
func (r *relay) receive(lines *lineReader, ends func(handover bool)) error {
	for {
		line, err := lines.next()
		if err != nil {
			return err
		}
		m, isRequest, isResponse := parse(line)
		if m.Track != nil && m.Track.Ends {
			ends(m.Track.Handover)
		}
		if r.accept(m, isRequest, isResponse) && !r.toClient(line) || !r.announce() {
			return context.Cause(r.ctx)
		}
	}
}

// finish tells a daemon that ends that nothing more follows. The daemon answers what it has received,
// while further messages of the client wait for the next daemon.
func (r *relay) finish(conn io.ReadWriteCloser, handover bool) {
	r.mu.Lock()
	r.ending, r.handover = true, handover
	if r.conn != nil {
		r.conn, r.up = nil, make(chan struct{})
		r.down = time.Now()
	}
	r.mu.Unlock()
	r.sending.Lock() // what is being sent is sent to its end
	defer r.sending.Unlock()
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // without it, the daemon waits a moment
	}
}

// announce tells the client which lists have changed since the connection was lost. It returns false
// if the relay ends.
func (r *relay) announce() bool {
	r.mu.Lock()
	var lines [][]byte
	for _, name := range r.changed {
		method := "notifications/" + name + "/list_changed"
		if r.initialized != nil {
			lines = append(lines, notification(method, nil))
		}
		for _, id := range slices.Sorted(maps.Keys(r.listens)) {
			if paramsOf(r.listens[id]).Params.Notifications[name+"ListChanged"] == true {
				lines = append(lines, notification(method, map[string]any{"_meta": map[string]json.RawMessage{subscriptionKey: json.RawMessage(id)}}))
			}
		}
	}
	r.changed = nil
	r.mu.Unlock()
	for _, line := range lines {
		if !r.toClient(line) {
			return false
		}
	}
	return true
}

// subscriptionKey names the member of _meta that identifies a subscriptions/listen request, as in
// core/mcp, which is too large for this package.
const subscriptionKey = "io.modelcontextprotocol/subscriptionId"

// listOf returns the name of the list that a method requests, or "".
func listOf(method string) string {
	switch method {
	case "tools/list", "prompts/list", "resources/list":
		return strings.TrimSuffix(method, "/list")
	case "resources/templates/list":
		return "resources"
	}
	return ""
}

// accept updates the state for a message of the daemon, and reports whether to forward it.
func (r *relay) accept(m message, isRequest, isResponse bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := string(m.ID)
	switch {
	case m.Track != nil:
		for _, name := range slices.Sorted(maps.Keys(m.Track.Lists)) {
			if was, seen := r.seen[name]; r.compare && seen && was != m.Track.Lists[name] {
				r.changed = append(r.changed, name)
			}
			r.seen[name] = m.Track.Lists[name]
		}
		if m.Track.Lists != nil {
			r.compare = false
		}
		return false
	case isRequest && len(r.asked) < maxPending:
		r.asked[id] = true
	case isResponse && r.repeated[id]:
		delete(r.repeated, id)
		return false
	case isResponse:
		if len(m.Error) > 0 && r.pending[id] == "initialize" { // the client may try again, and the relay does not
			r.initialize, r.initialized = nil, nil
		}
		delete(r.pending, id)
		delete(r.listens, id)
	}
	return true
}

// resume repeats the handshake of a legacy client.
func (r *relay) resume(conn io.ReadWriteCloser, lines *lineReader) error {
	r.mu.Lock()
	initialize, initialized, waiting := r.initialize, r.initialized, false
	if initialize != nil {
		m, _, _ := parse(initialize)
		_, waiting = r.pending[string(m.ID)]
		if !waiting {
			r.repeated[string(m.ID)] = true
		}
	}
	r.mu.Unlock()
	if initialize == nil {
		return nil
	}
	if _, err := conn.Write(initialize); err != nil {
		return err
	}
	if err := r.awaitInitialized(conn, lines, initialize, waiting); err != nil {
		return err
	}
	if initialized == nil {
		return nil
	}
	_, err := conn.Write(initialized)
	return err
}

// admit repeats the client's subscriptions, and then admits its messages. An error also ends the
// reads, see serve.
func (r *relay) admit(conn io.ReadWriteCloser) {
	r.mu.Lock()
	again := r.repeats()
	r.mu.Unlock()
	for _, line := range again {
		if _, err := conn.Write(line); err != nil {
			return
		}
	}
	r.mu.Lock()
	if r.ending {
		r.mu.Unlock()
		return
	}
	r.conn, r.handover = conn, false
	close(r.up)
	left := r.left
	r.mu.Unlock()
	if left {
		closeWrite(conn)
	}
}

// repeats returns the requests to repeat, in an order that does not vary. The response to each is
// dropped, unless the client still waits for it. r.mu must be held.
func (r *relay) repeats() (again [][]byte) {
	if r.level != nil {
		again = append(again, r.level)
	}
	for _, uri := range slices.Sorted(maps.Keys(r.subscribed)) {
		again = append(again, r.subscribed[uri])
	}
	for _, line := range again {
		m, _, _ := parse(line)
		if _, waits := r.pending[string(m.ID)]; !waits {
			r.repeated[string(m.ID)] = true
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.listens)) { // their responses are for the client
		again = append(again, r.listens[id])
	}
	return again
}

// awaitInitialized reads the response to a repeated initialize request. It forwards the response if
// the client still waits for it.
func (r *relay) awaitInitialized(conn io.ReadWriteCloser, lines *lineReader, initialize []byte, waiting bool) error {
	want, _, _ := parse(initialize)
	for {
		line, err := lines.next()
		if err != nil {
			return err
		}
		m, isRequest, isResponse := parse(line)
		if m.Track != nil && m.Track.Ends {
			r.finish(conn, m.Track.Handover)
		}
		forward := r.accept(m, isRequest, isResponse)
		if !isResponse || !bytes.Equal(m.ID, want.ID) {
			continue // nothing else is expected before the response
		}
		if forward && waiting && !r.toClient(line) {
			return context.Cause(r.ctx)
		}
		return nil
	}
}

// lost answers the requests that a lost connection leaves without a response, and cancels those of
// the daemon. handover reports whether the daemon handed over to another one. ok is false if the relay
// ends.
func (r *relay) lost(err error) (handover, ok bool) {
	r.mu.Lock()
	handover = r.ending && r.handover
	if r.conn != nil {
		r.conn, r.up = nil, make(chan struct{})
		r.down = time.Now()
	} else if r.ending {
		r.down = time.Now()
	}
	r.back, r.failing, r.ending, r.compare = time.Time{}, true, false, true
	repeats := map[string]bool{}
	for _, line := range append(r.repeats(), r.initialize) {
		m, _, _ := parse(line)
		repeats[string(m.ID)] = true
	}
	var lines [][]byte
	for _, id := range slices.Sorted(maps.Keys(r.pending)) {
		if list := listOf(r.pending[id]); list != "" {
			r.seen[list] = ""
		}
		if !repeats[id] || r.left { // nothing is repeated for a client that has left
			lines = append(lines, failure(json.RawMessage(id), "the connection to the mcptrack daemon was lost; the request may have been executed, and is not repeated"))
			delete(r.pending, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.asked)) {
		if len(r.stale) < maxPending {
			r.stale[id] = true
		}
		lines = append(lines, cancelled(json.RawMessage(id)))
	}
	clear(r.asked)
	clear(r.repeated)
	r.mu.Unlock()
	for _, line := range lines {
		if !r.toClient(line) {
			return handover, false
		}
	}
	r.mu.Lock()
	r.failing = false
	left := r.left
	r.mu.Unlock()
	if left {
		r.cancel(errClientLeft)
	}
	if r.ctx.Err() != nil {
		return handover, false
	}
	r.report(err)
	return handover, true
}

// failure returns an error response. -32000 is the code for implementation-defined errors of
// JSON-RPC 2.0.
func failure(id json.RawMessage, text string) []byte {
	return line(map[string]any{"jsonrpc": "2.0", "id": id, "error": map[string]any{"code": -32000, "message": text}})
}

// cancelled returns the notification that cancels a request of the daemon.
func cancelled(id json.RawMessage) []byte {
	return notification("notifications/cancelled", map[string]any{"requestId": id, "reason": "the connection to the mcptrack daemon was lost"})
}

func notification(method string, params map[string]any) []byte {
	m := map[string]any{"jsonrpc": "2.0", "method": method}
	if params != nil {
		m["params"] = params
	}
	return line(m)
}

func line(message any) []byte {
	b, err := json.Marshal(message)
	if err != nil { // ids come from valid JSON
		panic(err)
	}
	return append(b, '\n')
}

// lineReader reads lines of at most maxMessage bytes.
type lineReader struct{ r *bufio.Reader }

func newLineReader(r io.Reader) *lineReader { return &lineReader{bufio.NewReaderSize(r, 16<<10)} }

// next returns the next line that is not blank, including its newline. The caller owns it. It returns
// a last line without a newline together with io.EOF.
func (l *lineReader) next() ([]byte, error) {
	var line []byte
	for {
		part, err := l.r.ReadSlice('\n')
		line = append(line, part...)
		switch {
		case len(line) > maxMessage:
			return nil, fmt.Errorf("a message is larger than %d MiB", maxMessage>>20)
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return bytes.TrimSpace(line), err
		case err != nil:
			return nil, err
		case strings.TrimSpace(string(line[:min(len(line), 3)])) == "" && len(bytes.TrimSpace(line)) == 0:
			line = line[:0]
		default:
			return line, nil
		}
	}
}
