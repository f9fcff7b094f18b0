package realtime

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

// through is a proxy between a test client and an endpoint, on real sockets.
type through struct {
	*testing.T
	*Proxy
	far    *realtimetest.Endpoint
	url    string       // the proxy's URL
	client *http.Client // nil: the default

	outcomes      chan int // gets 1 for an added message and -1 for a failed one; only settle receives
	added, failed int      // the outcomes that settle received
}

// settle waits for the outcomes of n more messages.
func (x *through) settle(n int) {
	x.Helper()
	ctx, cancel := x.bound()
	defer cancel()
	for range n {
		select {
		case is := <-x.outcomes:
			if is > 0 {
				x.added++
			} else {
				x.failed++
			}
		case <-ctx.Done():
			x.Fatalf("%d added, %d failed", x.added, x.failed)
		}
	}
}

func startProxy(t *testing.T, far *realtimetest.Endpoint, change func(*ProxyOptions)) *through {
	t.Helper()
	end := httptest.NewServer(far)
	x := newProxy(t, far, Endpoint{URL: end.URL + "/v1/realtime"}, change)
	srv := httptest.NewServer(x.Proxy)
	x.url = srv.URL
	t.Cleanup(func() {
		x.stop()
		srv.Close()
		end.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return x
}

// startProxyInBubble starts a proxy without a network, inside a synctest bubble.
func startProxyInBubble(t *testing.T, far *realtimetest.Endpoint, change func(*ProxyOptions)) *through {
	t.Helper()
	near, beyond := newWire(), newWire()
	x := newProxy(t, far, Endpoint{URL: "ws://127.0.0.1/v1/realtime", Client: beyond.client()}, change)
	x.url, x.client = "http://127.0.0.1", near.client()
	servers := []*http.Server{{Handler: x.Proxy}, {Handler: far}}
	for i, w := range []*wire{near, beyond} {
		go func() { _ = servers[i].Serve(w) }()
	}
	t.Cleanup(func() {
		x.stop()
		for _, s := range servers {
			_ = s.Close()
		}
	})
	return x
}

func newProxy(t *testing.T, far *realtimetest.Endpoint, upstream Endpoint, change func(*ProxyOptions)) *through {
	t.Helper()
	x := &through{T: t, far: far, outcomes: make(chan int, 1000)} // of all messages of a test
	opts := ProxyOptions{
		Upstream: upstream,
		Delivery: DeliveryOptions{
			Queue: QueueOptions{Every: -1, Window: -1},
			Injected: func(all []Receipt) {
				for range all {
					x.outcomes <- 1
				}
			},
			Failed: func(Failure) { x.outcomes <- -1 },
		},
	}
	if change != nil {
		change(&opts)
	}
	var err error
	if x.Proxy, err = NewProxy(opts); err != nil {
		t.Fatal(err)
	}
	return x
}

func (x *through) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := x.Shutdown(ctx); err != nil {
		x.Error(err)
	}
	for _, p := range x.far.Problems() {
		x.Error(p)
	}
}

func (x *through) connect(path string, opts *websocket.DialOptions) *websocket.Conn {
	x.Helper()
	c, res, err := x.handshake(path, opts)
	if err != nil {
		x.Fatalf("%v, %v", err, res)
	}
	return c
}

func (x *through) handshake(path string, opts *websocket.DialOptions) (*websocket.Conn, *http.Response, error) {
	ctx, cancel := x.bound()
	defer cancel()
	if opts == nil {
		opts = &websocket.DialOptions{HTTPClient: x.client}
	}
	c, res, err := websocket.Dial(ctx, x.url+path, opts)
	if err == nil {
		c.SetReadLimit(-1)
		x.Cleanup(func() { _ = c.CloseNow() })
	}
	return c, res, err
}

func (x *through) bound() (context.Context, context.CancelFunc) {
	return context.WithTimeout(x.Context(), time.Minute)
}

// read reads a message that has arrived or arrives soon.
func (x *through) read(c *websocket.Conn) (websocket.MessageType, []byte) {
	x.Helper()
	ctx, cancel := x.bound()
	defer cancel()
	typ, b, err := c.Read(ctx)
	if err != nil {
		x.Fatal(err)
	}
	return typ, b
}

// readUntil reads until a message contains a text, and returns all messages.
func (x *through) readUntil(c *websocket.Conn, text string) []string {
	x.Helper()
	var got []string
	for {
		_, b := x.read(c)
		got = append(got, string(b))
		if strings.Contains(string(b), text) {
			return got
		}
	}
}

func echo(c *realtimetest.Conn, typ websocket.MessageType, b []byte) {
	_ = c.Write(c.Context(), typ, b)
}

// Frames of all sizes, text and binary, are forwarded unchanged and in order in both directions at the
// same time, with injected messages in between.
func TestProxyPassesEverything(t *testing.T) {
	var mu sync.Mutex
	sums := map[int][]string{} // what the endpoint received, by session
	x := startProxy(t, &realtimetest.Endpoint{Message: func(c *realtimetest.Conn, typ websocket.MessageType, b []byte) {
		mu.Lock()
		sums[c.N] = append(sums[c.N], fmt.Sprintf("%v %x", typ, sha256.Sum256(b)))
		mu.Unlock()
		echo(c, typ, b)
	}}, nil)
	const sessions = 3
	began := time.Now().Add(time.Hour) // late updates would be merged
	var wg sync.WaitGroup
	for range sessions {
		c := x.connect("/", nil)
		x.readUntil(c, "session.created")
		type frame struct {
			typ  websocket.MessageType
			data []byte
		}
		frames := make(chan frame, 60) // sent; closed after the last
		ctx, cancel := x.bound()
		defer cancel()
		wg.Go(func() {
			defer close(frames)
			random := rand.New(rand.NewPCG(1, 2))
			for i := range cap(frames) {
				size := []int{0, 1, 125, 126, 4096, 10_000, 65_535, 65_536, 65_537, 131_072, 300_000}[i%11]
				f := frame{websocket.MessageBinary, make([]byte, size)}
				for i := range f.data {
					f.data[i] = byte(random.Uint32())
				}
				if i%2 == 0 {
					f.typ = websocket.MessageText
					for i := range f.data {
						f.data[i] = 'a' + f.data[i]%26
					}
				}
				x.Offer(update(uint64(i+1), "a:b", began.Add(time.Duration(i)*time.Millisecond)))
				if err := c.Write(ctx, f.typ, f.data); err != nil {
					t.Error(err)
					return
				}
				frames <- f
			}
		})
		wg.Go(func() { // at the same time
			for f := range frames {
				typ, got, err := c.Read(ctx)
				for err == nil && bytes.HasPrefix(got, []byte(`{"`)) { // about an injected message
					typ, got, err = c.Read(ctx)
				}
				if err != nil {
					t.Error(err)
					return
				}
				if typ != f.typ || !bytes.Equal(got, f.data) {
					t.Errorf("%v of %d bytes came back as %v of %d", f.typ, len(f.data), typ, len(got))
				}
			}
		})
	}
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	for n := 1; n <= sessions; n++ {
		if len(sums[n]) != 60 || strings.Join(sums[n], "\n") != strings.Join(sums[1], "\n") {
			t.Errorf("session %d: %d messages arrived", n, len(sums[n]))
		}
	}
	if n := len(x.far.Items()); n < sessions {
		t.Errorf("%d items", n)
	}
}

// A client that does not read blocks its endpoint connection and no other. Its messages are neither
// repeated nor abandoned.
func TestProxyBackPressure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const messages = 50
		var written atomic.Int32
		x := startProxyInBubble(t, &realtimetest.Endpoint{Message: func(c *realtimetest.Conn, typ websocket.MessageType, b []byte) {
			if string(b) != "flood" {
				echo(c, typ, b)
				return
			}
			go func() {
				for range messages {
					if c.Write(c.Context(), websocket.MessageBinary, make([]byte, 100_000)) != nil {
						return
					}
					written.Add(1)
				}
			}()
		}}, func(o *ProxyOptions) { o.Delivery.AckTimeout = 2 * time.Second; o.Delivery.Attempts = 1 })
		slow, quick := x.connect("/", nil), x.connect("/", nil)
		ctx, cancel := x.bound()
		defer cancel()
		if err := slow.Write(ctx, websocket.MessageText, []byte("flood")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n := written.Load(); n >= messages {
			t.Fatalf("all %d messages went somewhere", n)
		}
		x.Offer(update(1, "a:b", time.Now()))
		if err := quick.Write(ctx, websocket.MessageText, []byte("ping")); err != nil {
			t.Fatal(err)
		}
		x.readUntil(quick, "ping")
		items := x.far.AwaitItems(ctx, 2)
		time.Sleep(7 * time.Second) // longer than the timeouts of three acknowledgements
		if sent := len(x.far.Items()); len(x.outcomes) != 1 || sent != 2 {
			t.Fatalf("%d outcomes, %d items", len(x.outcomes), sent)
		}
		done := false
		for n := 0; n < messages || !done; {
			typ, b := x.read(slow)
			if typ == websocket.MessageBinary {
				n++
			} else if bytes.Contains(b, []byte("conversation.item.done")) {
				done = true
			}
		}
		x.settle(2)
		if len(x.far.Items()) != 2 || len(items) != 2 || x.failed != 0 {
			t.Errorf("%d items, %d messages failed", len(x.far.Items()), x.failed)
		}
	})
}

// The client sees the events of its conversation, but no errors about events that it did not send.
func TestProxyShowsItems(t *testing.T) {
	x := startProxy(t, &realtimetest.Endpoint{Message: echo, Create: func(c *realtimetest.Conn, it realtimetest.ReceivedItem) {
		if strings.Contains(it.Texts[0], "bad:") {
			c.Fail(it.EventID, "invalid_value", "")
			c.Fail("event_of_the_client", "invalid_value", "")
			return
		}
		c.Add(it)
	}}, nil)
	c := x.connect("/", nil)
	x.readUntil(c, "session.created")
	x.Offer(update(1, "bad:1", time.Now()))
	got := x.readUntil(c, "event_of_the_client")
	x.Offer(update(2, "good:1", time.Now()))
	got = append(got, x.readUntil(c, "conversation.item.done")...)
	all := strings.Join(got, "\n")
	if len(got) != 3 || strings.Contains(all, "evt_mt_") || !strings.Contains(all, "conversation.item.added") {
		t.Errorf("the client saw\n%s", all)
	}
	x.settle(2)
	if x.added != 1 || x.failed != 1 {
		t.Errorf("%d added, %d failed", x.added, x.failed)
	}
}

// Close codes are forwarded in both directions, as is a missing one.
func TestProxyClose(t *testing.T) {
	for _, code := range []websocket.StatusCode{1000, 1001, 1011, 4000, websocket.StatusNoStatusRcvd} {
		reason := "because"
		if code == websocket.StatusNoStatusRcvd {
			reason = ""
		}
		want := websocket.CloseError{Code: code, Reason: reason}
		t.Run(fmt.Sprint("from the endpoint ", int(code)), func(t *testing.T) {
			x := startProxy(t, &realtimetest.Endpoint{Message: func(c *realtimetest.Conn, typ websocket.MessageType, b []byte) {
				echo(c, typ, b) // earlier messages arrive
				_ = c.Close(code, reason)
			}}, nil)
			c := x.connect("/", nil)
			ctx, cancel := x.bound()
			defer cancel()
			_ = c.Write(ctx, websocket.MessageText, []byte("bye"))
			x.readUntil(c, "bye")
			if _, _, err := c.Read(ctx); !strings.Contains(err.Error(), want.Error()) {
				t.Errorf("%v, want %v", err, want)
			}
		})
		t.Run(fmt.Sprint("from the client ", int(code)), func(t *testing.T) {
			got := make(chan error, 1)
			x := startProxy(t, &realtimetest.Endpoint{Greet: func(c *realtimetest.Conn) {
				_, _, err := c.Read(c.Context())
				got <- err
			}}, nil)
			c := x.connect("/", nil)
			x.readUntil(c, "session.created")
			_ = c.Close(code, reason)
			if err := <-got; err == nil || !strings.Contains(err.Error(), want.Error()) {
				t.Errorf("%v, want %v", err, want)
			}
		})
	}
}

// The endpoint's close code also arrives while the client is sending.
func TestProxyCloseWhileTalking(t *testing.T) {
	x := startProxy(t, &realtimetest.Endpoint{Message: func(c *realtimetest.Conn, _ websocket.MessageType, _ []byte) {
		_ = c.Close(4000, "enough")
	}}, nil)
	for range 20 {
		c := x.connect("/", nil)
		x.readUntil(c, "session.created")
		ctx, cancel := x.bound()
		var talking sync.WaitGroup
		talking.Go(func() {
			for c.Write(ctx, websocket.MessageBinary, make([]byte, 100_000)) == nil {
			}
		})
		_, _, err := c.Read(ctx)
		if websocket.CloseStatus(err) != 4000 {
			t.Errorf("ended with %v", err)
		}
		_ = c.CloseNow()
		talking.Wait()
		cancel()
	}
}

// raw makes a WebSocket handshake by hand and returns the connection, to send what no library sends.
func raw(t *testing.T, url string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	_, _ = io.WriteString(conn, "GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	r := bufio.NewReader(conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		t.Fatalf("%v, %v", res, err)
	}
	return conn, r
}

// beginnings returns frames whose end is missing.
func beginnings(masked bool) map[string][]byte {
	mask := byte(0)
	if masked {
		mask = 0x80
	}
	frame := func(first byte, size, sent int) []byte {
		b := []byte{first, mask | 126, byte(size >> 8), byte(size)}
		if masked {
			b = append(b, 0, 0, 0, 0)
		}
		return append(b, bytes.Repeat([]byte{'x'}, sent)...)
	}
	return map[string][]byte{
		"a header":             frame(0x81, 10_000, 0),
		"half a frame":         frame(0x81, 10_000, 5000),
		"all but a byte":       frame(0x82, 10_000, 9999),
		"the first fragment":   frame(0x01, 5000, 5000),
		"a fragment and a bit": append(frame(0x01, 5000, 5000), frame(0x80, 5000, 0)...),
		"a large one":          append(frame(0x02, 60_000, 60_000), frame(0x00, 60_000, 60_000)...),
	}
}

// If one connection is lost, the other is dropped, and a partial message never arrives as a complete
// one.
func TestProxyBrokenOffByTheEndpoint(t *testing.T) {
	for name, begun := range beginnings(false) {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			var wg sync.WaitGroup
			defer wg.Wait()
			defer func() { _ = ln.Close() }()
			wg.Go(func() {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				defer func() { _ = conn.Close() }()
				q, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					t.Error(err)
					return
				}
				sum := sha1.Sum([]byte(q.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) // RFC 6455, §4.2.2
				_, _ = fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: %s\r\n\r\n", base64.StdEncoding.EncodeToString(sum[:]))
				_, _ = conn.Write(begun)
			})
			x := startProxy(t, &realtimetest.Endpoint{}, func(o *ProxyOptions) { o.Upstream.URL = "ws://" + ln.Addr().String() })
			_, r := raw(t, x.url)
			if got := frames(t, r); got != 0 {
				t.Errorf("%d whole messages came", got)
			}
		})
	}
}

// frames counts the final frames of messages, up to the end of the stream.
func frames(t *testing.T, r *bufio.Reader) (last int) {
	t.Helper()
	for {
		var head [2]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return last
		}
		size := int64(head[1] & 0x7f)
		switch size {
		case 126:
			var n [2]byte
			_, _ = io.ReadFull(r, n[:])
			size = int64(binary.BigEndian.Uint16(n[:]))
		case 127:
			var n [8]byte
			_, _ = io.ReadFull(r, n[:])
			size = int64(binary.BigEndian.Uint64(n[:]))
		}
		if n, _ := io.CopyN(io.Discard, r, size); n < size {
			return last
		}
		if head[0]&0x80 != 0 {
			last++
		}
	}
}

func TestProxyBrokenOffByTheClient(t *testing.T) {
	for name, begun := range beginnings(true) {
		t.Run(name, func(t *testing.T) {
			over := make(chan []byte, 10)
			x := startProxy(t, &realtimetest.Endpoint{Message: func(_ *realtimetest.Conn, _ websocket.MessageType, b []byte) { over <- b }}, nil)
			conn, r := raw(t, x.url)
			_, _ = r.ReadByte() // session.created
			_, _ = conn.Write(begun)
			_ = conn.Close()
			ctx, cancel := x.bound()
			defer cancel()
			if err := x.Shutdown(ctx); err != nil { // waits for the session
				t.Fatal(err)
			}
			// The endpoint's library takes the end of the stream for the end of a message. But of a
			// partial message that fits into the buffer, nothing was forwarded.
			if len(over) > 0 && name != "a large one" {
				t.Errorf("%d bytes arrived as a message", len(<-over))
			}
		})
	}
}

// Over TLS the end of the stream may arrive with the last bytes, which are forwarded as well.
func TestProxyTLS(t *testing.T) {
	far := &realtimetest.Endpoint{Message: func(c *realtimetest.Conn, typ websocket.MessageType, b []byte) {
		echo(c, typ, b)
		_ = c.Close(4000, "enough")
	}}
	end := httptest.NewTLSServer(far)
	defer end.Close()
	x := startProxy(t, far, func(o *ProxyOptions) {
		o.Upstream.URL = end.URL
		o.Upstream.Client = end.Client()
	})
	for _, size := range []int{10, 10_000, 300_000} {
		c := x.connect("/", nil)
		x.readUntil(c, "session.created")
		ctx, cancel := x.bound()
		if err := c.Write(ctx, websocket.MessageBinary, make([]byte, size)); err != nil {
			t.Error(err)
		}
		if _, b := x.read(c); len(b) != size {
			t.Errorf("%d of %d bytes", len(b), size)
		}
		if _, _, err := c.Read(ctx); websocket.CloseStatus(err) != 4000 {
			t.Errorf("ended with %v", err)
		}
		cancel()
	}
}

// If the end of a stream arrives with its last bytes, ended is set only after they are read.
func TestSpy(t *testing.T) {
	var ended atomic.Bool
	s := spy{r: iotest.DataErrReader(strings.NewReader("abcdef")), ended: &ended}
	b := make([]byte, 4)
	for _, want := range []string{"abcd", "ef"} {
		if n, err := s.Read(b); string(b[:n]) != want || err != nil || ended.Load() {
			t.Fatalf("%q, %v, ended %t", b[:n], err, ended.Load())
		}
	}
	if n, err := s.Read(b); n != 0 || err != io.EOF || !ended.Load() { //nolint:errorlint // exactly that
		t.Errorf("%d, %v, ended %t", n, err, ended.Load())
	}
}

// Shutdown ends every session with 1001, and accepts no more.
func TestProxyShutdown(t *testing.T) {
	ended := make(chan error, 1)
	x := startProxy(t, &realtimetest.Endpoint{Greet: func(c *realtimetest.Conn) {
		_, _, err := c.Read(c.Context())
		ended <- err
	}}, nil)
	c := x.connect("/", nil)
	x.readUntil(c, "session.created")
	seen := make(chan error, 1)
	go func() {
		_, _, err := c.Read(context.Background())
		seen <- err
	}()
	if err := x.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{<-ended, <-seen} {
		if websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Errorf("ended with %v", err)
		}
	}
	if _, res, err := x.handshake("/", nil); err == nil || res == nil || res.StatusCode != 503 {
		t.Errorf("%v, %v", err, res)
	}
}

// The handshake is forwarded: path or fixed path, query, headers, subprotocol, and the response's
// headers.
func TestProxyHandshake(t *testing.T) {
	far := &realtimetest.Endpoint{Header: http.Header{"X-Request-Id": {"req_1"}, "Set-Cookie": {"a=1", "b=2"}}}
	far.Accept.Subprotocols = []string{"realtime"}
	x := startProxy(t, far, func(o *ProxyOptions) { o.Upstream.Header = http.Header{"X-Org": {"ours"}} })
	c, res, err := x.handshake("/some/path?model=m&x=a%20b", &websocket.DialOptions{
		Subprotocols: []string{"other", "realtime", "openai-insecure-api-key.k"},
		HTTPHeader: http.Header{"Authorization": {"Bearer client"}, "X-Org": {"theirs"}, "X-Own": {"1", "2"}, "User-Agent": {"app/1"},
			"Origin": {"https://app.example"}, "Te": {"trailers"}, "Cookie": {"c=3"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if c.Subprotocol() != "realtime" || res.Header.Get("X-Request-Id") != "req_1" || len(res.Header.Values("Set-Cookie")) != 2 {
		t.Errorf("subprotocol %q, headers %v", c.Subprotocol(), res.Header)
	}
	q := far.Requests()[0]
	if q.URL.Path != "/v1/realtime" || q.URL.RawQuery != "model=m&x=a%20b" {
		t.Errorf("asked for %v", q.URL)
	}
	for name, want := range map[string]string{"Authorization": "Bearer client", "X-Org": "ours", "X-Own": "1,2", "User-Agent": "app/1",
		"Origin": "https://app.example", "Te": "", "Cookie": "c=3", "Sec-Websocket-Protocol": "other,realtime,openai-insecure-api-key.k", "X-Forwarded-For": ""} {
		if got := strings.Join(q.Header.Values(name), ","); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	bare := x.connect("/", nil)
	_ = bare.CloseNow()
	if ua := far.Requests()[1].Header.Get("User-Agent"); ua != "" && !strings.HasPrefix(ua, "Go-http-client") {
		t.Errorf("user agent %q", ua)
	}
}

// An upstream URL without a path gets the client's path.
func TestProxyPath(t *testing.T) {
	far := &realtimetest.Endpoint{}
	x := startProxy(t, far, func(o *ProxyOptions) {
		o.Upstream.URL = strings.TrimSuffix(o.Upstream.URL, "/v1/realtime")
		o.Upstream.Query = map[string][]string{"api-version": {"1"}}
	})
	x.connect("/openai/v1/realtime?model=m", nil)
	x.connect("/", nil)
	q := far.Requests()
	if q[0].URL.String() != "/openai/v1/realtime?api-version=1&model=m" || q[1].URL.String() != "/v1/realtime?api-version=1" {
		t.Errorf("asked for %v and %v", q[0].URL, q[1].URL)
	}
}

func TestProxyRefusals(t *testing.T) {
	x := startProxy(t, &realtimetest.Endpoint{Refuse: func(n int, _ *http.Request) int { return []int{0, 401, 429, 0, 0}[n] }},
		func(o *ProxyOptions) { o.MaxSessions = 1 })
	for _, want := range []int{401, 429} {
		_, res, err := x.handshake("/", nil)
		if err == nil || res == nil || res.StatusCode != want {
			t.Fatalf("%v, %v, want %d", err, res, want)
		}
		if body, _ := io.ReadAll(res.Body); !strings.Contains(string(body), "refused by the test") || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v", body, res.Header)
		}
	}
	x.connect("/", nil)
	if _, res, err := x.handshake("/", nil); err == nil || res == nil || res.StatusCode != 503 {
		t.Errorf("one too many: %v, %v", err, res)
	}
	res, err := http.Get(x.url + "/v1/models") //nolint:noctx // loopback
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("plain HTTP: %d", res.StatusCode)
	}
	unreachable := startProxy(t, &realtimetest.Endpoint{}, func(o *ProxyOptions) { o.Upstream.URL = "ws://127.0.0.1:1/v1/realtime" })
	if _, res, err := unreachable.handshake("/", nil); err == nil || res == nil || res.StatusCode != 502 {
		t.Errorf("an unreachable endpoint: %v, %v", err, res)
	}
}
