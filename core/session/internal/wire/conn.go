package wire

import (
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	sdk "github.com/mark3labs/mcp-go/mcp"
)

// Config is the configuration that all connections of a session share.
type Config struct {
	MaxLine int   // bytes of one line of stdout, or of one event of a stream
	MaxBody int64 // bytes of one HTTP body after decompression
	// Redact makes a text from a server or a library fit to be shown: one printable line
	// of bounded length without secrets.
	Redact func(string) string
	// Logger gets the log records of the library, too: it must redact them.
	Logger *slog.Logger
	// WriteTimeout returns how long a server on stdio may take to read one message.
	WriteTimeout func() time.Duration
	// DialContext connects to a server over HTTP; nil: a [net.Dialer].
	DialContext func(ctx context.Context, network, address string) (net.Conn, error)
	Handler     Handler
}

// Handler receives notifications, requests and failures. Goroutines that read from the server
// call the functions, possibly several at a time.
type Handler struct {
	// Notification is called for each notification that Client does not get. It must not
	// keep the value: the connection uses it again for the next one.
	Notification func(*Notification)
	// Client answers requests of the server, and gets the notifications meant for clients.
	Client Client
	// Opened reports that the notification stream of Streamable HTTP was opened
	// after [Conn.Publish].
	Opened func()
	// Gap reports that notifications may have been lost, and why.
	Gap func(reason string)
	// Silent reports that no byte came on the notification stream for [StreamIdle], and
	// whether the stream was replaced. Notifications sent meanwhile may be lost, but the
	// session and its subscriptions are intact.
	Silent func(reason string)
	// Undecodable reports data that began like a message but is not JSON: it may have been a
	// notification.
	Undecodable func()
	// Lost reports that the connection ended without Close; it is called at most once.
	// Requests in flight fail with the same error.
	Lost func(error)
}

// Conn is a connection to one server. Its methods may be called from several
// goroutines.
type Conn struct {
	cfg   Config
	tr    transport.Interface
	stdio bool
	http  *httpConn // nil on stdio
	// reply sends the answer to a request of the server, without waiting for the
	// server to take it.
	reply func(answer []byte)
	// stderr returns the last lines of the child's stderr; nil if there is no child.
	stderr func() []string
	// noise returns the first line since the last message that a server over pipes wrote in its
	// place; "" if there is none.
	noise func() string
	// flush waits for a short time until queued messages are written to the server.
	flush func()
	// release frees the resources of the transport, such as the child process.
	release func()
	// interrupted is set when a request was cancelled at the server, which may have to clean
	// up after it.
	interrupted atomic.Bool

	ctx    context.Context // ends with the connection
	cancel context.CancelFunc
	group  Group // every goroutine of the connection

	pending   pending
	inbound   inbound
	closeOnce sync.Once
	lost      chan struct{} // closed by end, after err was set

	mu  sync.Mutex // guards err
	err error      // why the connection is over; nil: it is not
}

func newConn(cfg Config) *Conn {
	c := &Conn{cfg: cfg, lost: make(chan struct{}), flush: func() {}, release: func() {}, stderr: func() []string { return nil }, noise: func() string { return "" }}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// attach connects the transport to the connection.
func (c *Conn) attach(tr transport.Interface) {
	c.tr = tr
	tr.SetNotificationHandler(func(n sdk.JSONRPCNotification) {
		// receive did not recognise this notification, as it spells "method" with escapes.
		if data, err := json.Marshal(n); err == nil {
			c.receive(new(scratch), data)
		}
	})
}

// SetProtocolVersion sets the version that requests over HTTP name in a header.
func (c *Conn) SetProtocolVersion(version string) {
	if h, ok := c.tr.(transport.HTTPConnection); ok {
		h.SetProtocolVersion(version)
	}
	if c.http != nil {
		c.http.version.Store(version)
	}
}

// HTTP reports whether the connection is one of Streamable HTTP.
func (c *Conn) HTTP() bool { return c.http != nil && !c.http.sse }

// Notify sends a notification.
func (c *Conn) Notify(ctx context.Context, method string, params map[string]any) error {
	x := new(exchange)
	err := c.tr.SendNotification(withExchange(ctx, x), sdk.JSONRPCNotification{JSONRPC: sdk.JSONRPC_VERSION,
		Notification: sdk.Notification{Method: method, Params: sdk.NotificationParams{AdditionalFields: params}}})
	if err != nil {
		return c.requestError(ctx, x, err)
	}
	return nil
}

// Err returns why the connection is over, or nil.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// end records why the connection is over. It reports false if it was over before.
func (c *Conn) end(err error) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return false
	}
	c.err = err
	close(c.lost)
	return true
}

// fail ends the connection and every request in flight.
func (c *Conn) fail(err error) {
	if c.end(err) {
		c.cfg.Handler.Lost(err)
		c.pending.failAll(err)
		c.cancel()
	}
}

// unknownPatience is how long the connection waits for the answers to other requests in
// flight when the server answers one of them that it does not know the session.
const unknownPatience = 300 * time.Millisecond

// expire ends the connection because the server does not know the session any more. It first
// lets requests in flight get their own answers, because these decide whether each can be
// repeated.
func (c *Conn) expire(err error) {
	if !c.end(err) {
		return
	}
	finish := func() {
		c.cfg.Handler.Lost(err)
		c.pending.failAll(err)
		c.cancel()
	}
	if !c.group.Go(func() {
		if c.pending.waitEmpty(c.ctx, unknownPatience) == nil { // not closed meanwhile
			finish()
		}
	}) {
		finish()
	}
}

// Close ends the connection; requests in flight fail with err. It returns once all
// goroutines, the child process and the connections to the server are gone. For a
// child that ignores everything but SIGKILL that takes a few seconds.
func (c *Conn) Close(err error) {
	c.closeOnce.Do(func() {
		gone := c.Err() != nil
		if !gone {
			c.flush() // a cancellation may be on its way
		}
		if c.http != nil {
			c.http.guard.close(gone)
		}
		c.end(err)
		c.pending.failAll(err)
		c.cancel()
		_ = c.tr.Close()
		c.release()
	})
	c.group.Wait()
}
