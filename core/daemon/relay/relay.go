// Package relay connects an MCP client that uses stdio to the daemon, and keeps the client connected
// when the daemon ends and another one takes over.
//
// # Promises
//
//   - Messages are forwarded unchanged and in order.
//   - A request is sent at most once. If the connection is lost before the response arrives, the
//     client receives an error that says that the request may have been executed. Only requests
//     without effect on the server are repeated: initialize, ping, logging/setLevel, resources/subscribe,
//     subscriptions/listen and those for a list. The client receives one response to each.
//   - The next daemon learns which lists the client has seen, and tells the client which of them changed.
//   - After a loss, the client's requests wait for another daemon for 4 s, so that each is answered within
//     5 s; and then until a daemon that has accepted the client has continued its session.
//     Otherwise they are answered with an error that contains the reason, and notifications and
//     responses are dropped.
//   - A daemon that ends in an orderly way says so. It answers what was sent, and what the client sends
//     from then on waits for the next daemon, so that nothing is lost. If the daemon hands over to
//     another one, the client's requests wait for up to 30 s.
//   - Requests of a lost daemon are cancelled at the client.
//   - After the client has closed its output, the relay ends when the daemon has answered, and at the
//     latest after 10 s.
//
// Memory is bounded by the size of one message in each direction, and by limits on the number of
// pending requests and subscriptions.
package relay

import (
	"bufio"
	"bytes"
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
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/internal/rawjson"
	"github.com/mcptrack/mcptrack/core/nowait"
)

// Options configure a relay.
type Options struct {
	In  io.Reader // messages of the client
	Out io.Writer // messages for the client
	// Connect connects to the daemon, starting one if necessary, and completes the handshake. From then
	// on the connection carries MCP messages, one per line. seen is what the last daemon reported of the lists
	// that the client has seen; it is not modified.
	Connect func(ctx context.Context, seen map[string]string) (io.ReadWriteCloser, error)
	// Lost is called when the connection is lost, and when it cannot be restored.
	Lost func(error)
}

// MaxRequest is the size in bytes of the largest request that the daemon accepts. Larger ones are
// answered with an error, because the daemon would not read their id.
const MaxRequest = 16 << 20

const (
	maxMessage = 64 << 20 // bytes in one message
	maxPending = 10_000   // requests without a response, in each direction
	maxKept    = 20_000   // messages that are repeated

	// patience is how long requests wait after a loss, and handover how long after a daemon that hands over to
	// another one: that one is already running, and slow at most because the machine is busy.
	patience = 4 * time.Second
	handover = 30 * time.Second
	// lastAnswers is how long the daemon may answer after the client has closed In.
	lastAnswers = 10 * time.Second
	// resumeTimeout is how long a daemon may take to continue a session.
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
	first, err := opts.Connect(ctx, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	r := &relay{opts: opts, ctx: ctx, cancel: cancel, out: nowait.NewWriter(opts.Out), changed: make(chan struct{}), resuming: true, until: time.Now().Add(patience), patience: patience,
		pending: map[string]string{}, repeated: map[string]bool{}, asked: map[string]bool{}, kept: map[string]kept{}, seen: map[string]string{}}
	go r.fromClient()            // ends with In, which may outlive Run
	ended := make(chan struct{}) // closed when nothing more is written to the client
	go func() {
		defer close(ended)
		r.fromDaemon(first)
	}()
	<-ctx.Done()
	select {
	case <-ended:
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
		line, _ := next(bufio.NewReader(in))
		if m := parse(line); m.request {
			_, _ = out.Write(failure(m.id, why)) // an error means that the client has left
		}
	}()
	select {
	case <-answered:
	case <-ctx.Done():
	case <-time.After(lastWrite):
	}
}

// relay is the state of one client. Two goroutines use it: fromClient forwards the client's
// messages, and fromDaemon owns the connections and forwards the daemon's messages.
type relay struct {
	opts   Options
	ctx    context.Context
	cancel context.CancelCauseFunc

	writing sync.Mutex // held while a message is written to the client
	out     io.Writer
	sending sync.Mutex // held while a message of the client is sent; locked before mu

	mu   sync.Mutex         // guards the fields below; never held during I/O
	conn io.ReadWriteCloser // receives the client's messages; nil if they wait
	// changed is closed and replaced when messages that wait may be sent, or may have to wait longer or shorter.
	changed  chan struct{}
	resuming bool          // a daemon has accepted the client, and continues its session
	until    time.Time     // until when requests wait for a daemon
	patience time.Duration // how long they wait after the next loss
	why      error         // why there is no connection
	left     bool          // the client has closed In
	failing  bool          // requests without a response are being answered; the relay does not end before

	// State of the current connection:
	ending   bool            // the daemon ends, and answers what was sent
	repeated map[string]bool // ids of requests that were repeated although the client has the response
	asked    map[string]bool // ids of the daemon's requests without a response

	// State of the client:
	pending map[string]string // keys in kept of the requests without a response, by id; empty if they are not kept
	kept    map[string]kept   // what the next daemon receives again, in the order of the keys
	seen    map[string]string // what daemons reported of the lists that the client has seen
}

// kept is a message that is repeated.
type kept struct {
	id   string // of a request
	line []byte
}

// Keys in relay.kept, or what they begin with.
const (
	keyInitialize  = "1"
	keyInitialized = "2"
	keyLevel       = "3"
	keySubscribe   = "4 " // and the URI
	keyRead        = "5 " // and the id of a request that is kept until it is answered
)

// message contains the members of a JSON-RPC message that matter here.
type message struct {
	id, method        string
	failed            bool     // it has an error
	track             *control // set in a line that is for the relay
	request, response bool
}

// control is a line of the daemon for the relay.
type control struct {
	// Seen describes lists that the client sees with the following messages.
	Seen map[string]string `json:"seen"`
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
	} `json:"params"`
}

// parse returns the members of a message. Lines that are not JSON objects are forwarded like
// notifications, and the daemon rejects them.
func parse(line []byte) (m message) {
	line = bytes.TrimPrefix(line, []byte("\ufeff")) // some clients begin with a byte order mark
	if !json.Valid(line) {
		return message{}
	}
	for one, end, ok := rawjson.Next(line, 0); ok; one, end, ok = rawjson.Next(line, end) {
		var err error
		switch one.Name {
		case "id":
			m.id = string(one.Value)
		case "error":
			m.failed = true
		case "method":
			err = json.Unmarshal(one.Value, &m.method)
		case "mcptrack":
			err = json.Unmarshal(one.Value, &m.track)
		}
		if err != nil {
			return message{}
		}
	}
	if m.id != "" && m.id != "null" {
		m.request, m.response = m.method != "", m.method == ""
	}
	return m
}

func paramsOf(line []byte) (p params) {
	_ = json.Unmarshal(line, &p) // invalid parameters have no effect here
	return p
}

// toClient writes lines to the client. It returns false if the relay ends.
func (r *relay) toClient(lines ...[]byte) bool {
	r.writing.Lock()
	defer r.writing.Unlock()
	for _, line := range lines {
		if r.ctx.Err() != nil {
			return false
		}
		if _, err := r.out.Write(line); err != nil {
			r.cancel(fmt.Errorf("write to the client: %w", err))
			return false
		}
	}
	return true
}

// fromClient forwards the client's messages.
func (r *relay) fromClient() {
	in := bufio.NewReaderSize(nowait.NewReader(r.opts.In), 16<<10)
	for {
		line, err := next(in)
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
	conn, waits := r.conn, r.failing || r.ending || len(r.pending) > 0
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
	case <-time.After(lastAnswers):
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
	m := parse(line)
	if m.request && len(line) > MaxRequest {
		return r.toClient(failure(m.id, fmt.Sprintf("the request is larger than %d MiB", MaxRequest>>20)))
	}
	for {
		r.sending.Lock()
		r.mu.Lock()
		conn, changed, resuming, left := r.conn, r.changed, r.resuming, time.Until(r.until)
		full := m.request && len(r.pending) >= maxPending
		if conn != nil && !full {
			r.note(m, line)
		}
		r.mu.Unlock()
		if conn != nil && !full {
			_, _ = conn.Write(line) // an error also ends the reads, see fromDaemon
		}
		r.sending.Unlock()
		switch {
		case full:
			return r.toClient(failure(m.id, "too many requests are pending"))
		case conn != nil:
			return r.ctx.Err() == nil
		case left <= 0 && !resuming:
			return r.drop(m, line)
		}
		var over <-chan time.Time
		if !resuming {
			over = time.After(left)
		}
		select {
		case <-r.ctx.Done():
			return false
		case <-changed:
		case <-over:
		}
	}
}

// drop handles a message of the client that is not sent, because there is no daemon. It returns false
// if the relay ends.
func (r *relay) drop(m message, line []byte) bool {
	r.mu.Lock()
	if m.method == "notifications/cancelled" { // what it cancels is not repeated
		r.note(m, line)
	}
	why := r.why
	r.mu.Unlock()
	if !m.request {
		return true
	}
	text := "the mcptrack daemon cannot be reached; the request was not sent"
	if why != nil {
		text += ": " + why.Error()
	}
	return r.toClient(failure(m.id, text))
}

// note updates the state for a message that is about to be sent. r.mu must be held.
func (r *relay) note(m message, line []byte) {
	key := ""
	switch m.method {
	case "initialize":
		key = keyInitialize
	case "notifications/initialized":
		key = keyInitialized
	case "logging/setLevel":
		key = keyLevel
	case "resources/subscribe":
		key = keySubscribe + paramsOf(line).Params.URI
	case "resources/unsubscribe":
		delete(r.kept, keySubscribe+paramsOf(line).Params.URI)
	case "subscriptions/listen", "server/discover", "ping", "tools/list", "prompts/list", "resources/list", "resources/templates/list":
		key = keyRead + m.id
	case "notifications/cancelled": // a cancelled request receives no response
		id := string(paramsOf(line).Params.RequestID)
		delete(r.kept, keyRead+id)
		delete(r.pending, id)
	}
	if len(r.kept) >= maxKept {
		key = ""
	}
	if key != "" {
		r.kept[key] = kept{m.id, line}
	}
	switch {
	case m.request:
		r.pending[m.id] = key
	case m.response:
		delete(r.asked, m.id)
	}
}

// keeps reports whether a request without a response is repeated: a later one with the same key replaces it. r.mu
// must be held.
func (r *relay) keeps(id string) bool {
	k, ok := r.kept[r.pending[id]]
	return ok && k.id == id
}

// fromDaemon forwards the daemon's messages, and connects again whenever the connection is lost.
func (r *relay) fromDaemon(conn io.ReadWriteCloser) {
	delays := backoff.New(20*time.Millisecond, 2*time.Second)
	for {
		began := time.Now()
		err := r.serve(conn)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) {
			err = errors.New("it ended")
		}
		handedOver, ok := r.lost(err)
		if !ok || !r.giveUp(err) {
			return
		}
		if handedOver || time.Since(began) > steady {
			delays.Reset()
		}
		for {
			if !backoff.Sleep(r.ctx, delays.Next()) {
				return
			}
			r.mu.Lock()
			seen := maps.Clone(r.seen)
			r.mu.Unlock()
			if conn, err = r.opts.Connect(r.ctx, seen); err == nil {
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
	for _, id := range slices.Sorted(maps.Keys(r.pending)) {
		key := r.pending[id]
		if time.Until(r.until) > 0 || parse(r.kept[key].line).method == "subscriptions/listen" {
			continue
		}
		lines = append(lines, failure(id, "the mcptrack daemon cannot be reached: "+why.Error()))
		delete(r.pending, id)
		delete(r.kept, key)
	}
	r.mu.Unlock()
	return r.toClient(lines...)
}

// serve uses one connection until it is lost, and returns why.
func (r *relay) serve(conn io.ReadWriteCloser) error {
	// Closing the connection interrupts a blocked read or write.
	defer context.AfterFunc(r.ctx, func() { _ = conn.Close() })()
	r.mu.Lock()
	r.resuming = true
	r.wake()
	again := r.repeats()
	r.mu.Unlock()
	in := bufio.NewReaderSize(conn, 16<<10)
	late := time.AfterFunc(resumeTimeout, func() { _ = conn.Close() })
	var err error
	if len(again) > 0 && parse(again[0]).method == "initialize" {
		if _, err = conn.Write(again[0]); err == nil {
			err = r.receive(conn, in, parse(again[0]).id, nil)
		}
		again = again[1:]
	}
	if !late.Stop() && err == nil {
		err = errors.New("the daemon did not answer in time")
	}
	if err == nil {
		// The daemon answers while the requests to repeat are written, so both run concurrently.
		var writing sync.WaitGroup
		writing.Go(func() { r.admit(conn, again) })
		err = r.receive(conn, in, "", &writing)
		_ = conn.Close()
		writing.Wait()
	}
	_ = conn.Close()
	return err
}

// repeats returns the messages to repeat. The response to a request is dropped, unless the client still
// waits for it. r.mu must be held.
func (r *relay) repeats() (again [][]byte) {
	for _, key := range slices.Sorted(maps.Keys(r.kept)) {
		k := r.kept[key]
		if _, waits := r.pending[k.id]; !waits && k.id != "" {
			r.repeated[k.id] = true
		}
		again = append(again, k.line)
	}
	return again
}

// admit repeats messages of the client, and then admits others. An error also ends the reads, see serve.
func (r *relay) admit(conn io.ReadWriteCloser, again [][]byte) {
	for _, line := range again {
		if _, err := conn.Write(line); err != nil {
			return
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ending {
		return
	}
	r.conn, r.resuming, r.patience = conn, false, patience
	r.wake()
	if r.left {
		closeWrite(conn)
	}
}

// wake lets messages that wait look again. r.mu must be held.
func (r *relay) wake() {
	close(r.changed)
	r.changed = make(chan struct{})
}

// receive forwards messages until the connection is lost, or until the response to the request with an id
// if that is not empty. If the daemon ends, writing gets the goroutine that tells it that nothing more follows.
func (r *relay) receive(conn io.ReadWriteCloser, in *bufio.Reader, id string, writing *sync.WaitGroup) error {
	for {
		line, err := next(in)
		if err != nil {
			return err
		}
		m := parse(line)
		switch {
		case m.track != nil && m.track.Ends && writing != nil:
			writing.Go(func() { r.finish(conn, m.track.Handover) })
		case m.track != nil && m.track.Ends:
			r.finish(conn, m.track.Handover)
		}
		if r.accept(m) && !r.toClient(line) {
			return context.Cause(r.ctx)
		}
		if id != "" && m.response && m.id == id {
			return nil
		}
	}
}

// finish tells a daemon that ends that nothing more follows. The daemon answers what it has received,
// while further messages of the client wait for the next daemon.
func (r *relay) finish(conn io.ReadWriteCloser, handsOver bool) {
	r.mu.Lock()
	r.ending, r.resuming, r.conn = true, false, nil
	if handsOver {
		r.patience = handover
	}
	r.until = time.Now().Add(endTime + r.patience)
	r.wake()
	r.mu.Unlock()
	r.sending.Lock() // what is being sent is sent to its end
	defer r.sending.Unlock()
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // without it, the daemon waits a moment
	}
}

// accept updates the state for a message of the daemon, and reports whether to forward it.
func (r *relay) accept(m message) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case m.track != nil:
		maps.Copy(r.seen, m.track.Seen)
		return false
	case m.request && len(r.asked) < maxPending:
		r.asked[m.id] = true
	case m.response && r.repeated[m.id]:
		delete(r.repeated, m.id)
		return false
	case m.response:
		key, keeps := r.pending[m.id], r.keeps(m.id)
		delete(r.pending, m.id)
		if keeps && (m.failed || strings.HasPrefix(key, keyRead)) {
			delete(r.kept, key) // after an error, the client may try again, and the relay does not
		}
		if keeps && m.failed && key == keyInitialize {
			delete(r.kept, keyInitialized)
		}
	}
	return true
}

// lost answers the requests that a lost connection leaves without a response, and cancels those of
// the daemon. handedOver reports whether the daemon handed over to another one. ok is false if the relay
// ends.
func (r *relay) lost(err error) (handedOver, ok bool) {
	r.mu.Lock()
	handedOver = r.ending && r.patience == handover
	if r.conn != nil || r.ending {
		r.until = time.Now().Add(r.patience)
	}
	r.conn, r.resuming, r.ending, r.failing = nil, false, false, true
	r.wake()
	var lines [][]byte
	for _, id := range slices.Sorted(maps.Keys(r.pending)) {
		if !r.keeps(id) || r.left { // nothing is repeated for a client that has left
			lines = append(lines, failure(id, "the connection to the mcptrack daemon was lost; the request may have been executed, and is not repeated"))
			delete(r.pending, id)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(r.asked)) {
		lines = append(lines, line(map[string]any{"jsonrpc": "2.0", "method": "notifications/cancelled",
			"params": map[string]any{"requestId": json.RawMessage(id), "reason": "the connection to the mcptrack daemon was lost"}}))
	}
	clear(r.asked)
	clear(r.repeated)
	r.mu.Unlock()
	if !r.toClient(lines...) {
		return handedOver, false
	}
	r.mu.Lock()
	r.failing = false
	if r.left {
		r.cancel(errClientLeft)
	}
	r.mu.Unlock()
	r.report(err)
	return handedOver, r.ctx.Err() == nil
}

// report says why there is no connection.
func (r *relay) report(err error) {
	r.mu.Lock()
	r.why = err
	r.mu.Unlock()
	if r.ctx.Err() == nil {
		r.opts.Lost(err)
	}
}

// failure returns an error response. -32000 is the code for implementation-defined errors of
// JSON-RPC 2.0.
func failure(id, text string) []byte {
	return line(map[string]any{"jsonrpc": "2.0", "id": json.RawMessage(id), "error": map[string]any{"code": -32000, "message": text}})
}

func line(message any) []byte {
	b, err := json.Marshal(message)
	if err != nil { // ids come from valid JSON
		panic(err)
	}
	return append(b, '\n')
}

// next returns the next line that is not blank, including its newline. The caller owns it. It returns
// a last line without a newline together with io.EOF.
func next(r *bufio.Reader) ([]byte, error) {
	for {
		line, err := ipc.ReadLine(r, maxMessage)
		switch {
		case errors.Is(err, io.EOF):
			return bytes.TrimSpace(line), err
		case err != nil || len(bytes.TrimSpace(line)) > 0:
			return line, err
		}
	}
}
