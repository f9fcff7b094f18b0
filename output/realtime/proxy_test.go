package realtime

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/mcptrack/mcptrack/output/realtime/realtimetest"
)

// through is a proxy between a test and an endpoint, on real sockets.
type through struct {
	*testing.T
	*Proxy
	far *realtimetest.Endpoint
	url string // of the proxy

	mu       sync.Mutex
	receipts []Receipt
}

func startProxy(t *testing.T, far *realtimetest.Endpoint, change func(*ProxyOptions)) *through {
	t.Helper()
	end := httptest.NewServer(far)
	x := &through{T: t, far: far}
	opts := ProxyOptions{
		Upstream: Endpoint{URL: end.URL + "/v1/realtime"},
		Delivery: DeliveryOptions{
			Queue:    QueueOptions{Every: -1, Window: -1},
			Injected: func(r []Receipt) { x.mu.Lock(); defer x.mu.Unlock(); x.receipts = append(x.receipts, r...) },
		},
	}
	if change != nil {
		change(&opts)
	}
	var err error
	if x.Proxy, err = NewProxy(opts); err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(x.Proxy)
	x.url = srv.URL
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := x.Shutdown(ctx); err != nil {
			t.Error(err)
		}
		srv.Close()
		end.Close()
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		for _, p := range far.Problems() {
			t.Error(p)
		}
	})
	return x
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

// read reads a message that is there or comes soon.
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

// readUntil reads up to a message that contains a text, and returns all.
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

// Frames of all sizes, text and binary, pass as they are, in order, both ways, with
// messages put in between.
func TestProxyPassesEverything(t *testing.T) {
	var mu sync.Mutex
	sums := map[int][]string{} // what the endpoint got, of each session
	x := startProxy(t, &realtimetest.Endpoint{Message: func(c *realtimetest.Conn, typ websocket.MessageType, b []byte) {
		mu.Lock()
		sums[c.N] = append(sums[c.N], fmt.Sprintf("%v %x", typ, sha256.Sum256(b)))
		mu.Unlock()
		echo(c, typ, b)
	}}, nil)
	const sessions = 3
	began := time.Now().Add(time.Hour) // late ones would be merged
	var wg sync.WaitGroup
	for range sessions {
		c := x.connect("/", nil)
		x.readUntil(c, "session.created")
		wg.Go(func() {
			random := rand.New(rand.NewPCG(1, 2))
			ctx, cancel := x.bound()
			defer cancel()
			for i := range 60 {
				size := []int{0, 1, 125, 126, 4096, 10_000, 65_535, 65_536, 65_537, 131_072, 300_000}[i%11]
				b := make([]byte, size)
				typ := websocket.MessageBinary
				for i := range b {
					b[i] = byte(random.Uint32())
				}
				if i%2 == 0 {
					typ = websocket.MessageText
					for i := range b {
						b[i] = 'a' + b[i]%26
					}
				}
				x.Offer(update(uint64(i+1), "a:b", began.Add(time.Duration(i)*time.Millisecond)))
				if err := c.Write(ctx, typ, b); err != nil {
					t.Error(err)
					return
				}
				for {
					gotTyp, got, err := c.Read(ctx)
					if err != nil {
						t.Error(err)
						return
					}
					if bytes.HasPrefix(got, []byte(`{"`)) { // about what was put in
						continue
					}
					if gotTyp != typ || !bytes.Equal(got, b) {
						t.Errorf("%d: %v of %d bytes came back as %v of %d", i, typ, len(b), gotTyp, len(got))
					}
					break
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
	if n := len(x.far.Items()); n < 60 {
		t.Errorf("%d items", n)
	}
}

// Audio at the rate of speech, 50 frames of 10 KB a second each way, with updates
// all the while: none is lost or overtaken.
func TestProxySpeech(t *testing.T) {
	const sessions, frames, pace = 8, 100, 20 * time.Millisecond
	frame := func(i int) []byte {
		return binary.BigEndian.AppendUint32(bytes.Repeat([]byte{byte(i)}, 10_000), uint32(i))
	}
	x := startProxy(t, &realtimetest.Endpoint{Message: echo}, nil)
	var wg sync.WaitGroup
	for range sessions {
		c := x.connect("/", nil)
		ctx, cancel := x.bound()
		defer cancel()
		wg.Go(func() {
			tick := time.NewTicker(pace)
			defer tick.Stop()
			for i := range frames {
				<-tick.C
				if err := c.Write(ctx, websocket.MessageBinary, frame(i)); err != nil {
					t.Error(err)
					return
				}
			}
		})
		wg.Go(func() {
			for i := 0; i < frames; {
				typ, got, err := c.Read(ctx)
				if err != nil {
					t.Error(err)
					return
				}
				if typ == websocket.MessageText {
					continue
				}
				if !bytes.Equal(got, frame(i)) {
					t.Errorf("frame %d is another", i)
				}
				i++
			}
		})
	}
	for i := range 20 {
		x.Offer(update(uint64(i+1), fmt.Sprintf("a:%d", i), time.Now()))
	}
	wg.Wait()
	ctx, cancel := x.bound()
	defer cancel()
	if !x.far.Await(ctx, func() bool { return len(texts(x.far.Items())) == 20*sessions }) {
		t.Errorf("%d messages", len(texts(x.far.Items())))
	}
	if s := x.Stats(); s.Open != sessions || s.Injected > 20*sessions {
		t.Errorf("%+v", s)
	}
}

// A client that does not read stops the endpoint, and nobody else; its messages
// are neither repeated nor given up for that.
func TestProxyBackPressure(t *testing.T) {
	var mu sync.Mutex
	written := 0
	x := startProxy(t, &realtimetest.Endpoint{Message: func(c *realtimetest.Conn, typ websocket.MessageType, b []byte) {
		if string(b) != "flood" {
			echo(c, typ, b)
			return
		}
		go func() {
			for range 600 {
				if c.Write(c.Context(), websocket.MessageBinary, make([]byte, 100_000)) != nil {
					return
				}
				mu.Lock()
				written++
				mu.Unlock()
			}
		}()
	}}, func(o *ProxyOptions) { o.Delivery.AckTimeout = 2 * time.Second; o.Delivery.Attempts = 1 })
	slow, quick := x.connect("/", nil), x.connect("/", nil)
	ctx, cancel := x.bound()
	defer cancel()
	if err := slow.Write(ctx, websocket.MessageText, []byte("flood")); err != nil {
		t.Fatal(err)
	}
	// Until the endpoint stands still.
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for stood, last := 0, -1; stood < 20; {
		<-tick.C
		mu.Lock()
		if written == last && written > 0 {
			stood++
		} else {
			stood = 0
		}
		last = written
		mu.Unlock()
	}
	if written >= 600 {
		t.Fatal("60 MB went somewhere")
	}
	x.Offer(update(1, "a:b", time.Now()))
	if err := quick.Write(ctx, websocket.MessageText, []byte("ping")); err != nil {
		t.Fatal(err)
	}
	x.readUntil(quick, "ping")
	items := x.far.AwaitItems(ctx, 2)
	for range 650 { // longer than three acknowledgements may take
		<-tick.C
		if s := x.Stats(); s.Failed != 0 || s.Sent != 2 {
			t.Fatalf("%+v", s)
		}
	}
	done := false
	for n := 0; n < 600 || !done; {
		typ, b := x.read(slow)
		if typ == websocket.MessageBinary {
			n++
		} else if bytes.Contains(b, []byte("conversation.item.done")) {
			done = true
		}
	}
	if s := x.Stats(); len(x.far.Items()) != 2 || len(items) != 2 || s.Failed != 0 || s.Injected != 2 {
		t.Errorf("%d items, %+v", len(x.far.Items()), s)
	}
}

// The client sees what became of its conversation, but no errors about events that
// it did not send.
func TestProxyShowsItems(t *testing.T) {
	x := startProxy(t, &realtimetest.Endpoint{Message: echo, Create: func(c *realtimetest.Conn, it realtimetest.Item) {
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
	if s := x.Stats(); s.Failed != 1 || s.Injected != 1 {
		t.Errorf("%+v", s)
	}
}
