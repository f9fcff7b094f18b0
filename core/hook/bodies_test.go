package hook

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/config"
)

// A slowSender sends a message in parts.
type slowSender struct {
	*testing.T
	net.Conn
}

// begin sends the beginning of a message from an address, of which the body is to have size bytes.
func begin(t *testing.T, to *httptest.Server, from string, h http.Header, size int, body string) slowSender {
	t.Helper()
	conn, err := net.Dial("tcp", to.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s := slowSender{t, conn}
	s.send("POST %srepo HTTP/1.1\r\nHost: x\r\nFrom: %s\r\nContent-Length: %d\r\n", Path, from, size)
	_ = h.Write(conn)
	s.send("\r\n%s", body)
	return s
}

func (s slowSender) send(format string, args ...any) {
	_, _ = fmt.Fprintf(s.Conn, format, args...) // whoever is given up sees it in the answer
}

// answer returns the status code, and 0 if there is no answer.
func (s slowSender) answer() int {
	_ = s.SetReadDeadline(time.Now().Add(time.Minute))
	line, _ := io.ReadAll(io.LimitReader(s.Conn, int64(len("HTTP/1.1 200"))))
	code := 0
	_, _ = fmt.Sscanf(string(line), "HTTP/1.1 %d", &code)
	return code
}

// slow returns a server for the hook "repo". The header From of a request stands for its address.
func slow(t *testing.T) (*world, *httptest.Server) {
	w := newWorld(t, hooked(config.HookHMAC, secret))
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, q *http.Request) {
		q.RemoteAddr = q.Header.Get("From") + ":1"
		w.r.ServeHTTP(rw, q)
	}))
	t.Cleanup(server.Close)
	return w, server
}

// await waits until the bodies of n messages are in memory.
func (w *world) await(n int) {
	w.Helper()
	e := w.r.endpoints["repo"]
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		e.mu.Lock()
		now, size := len(e.bodies), e.size
		e.mu.Unlock()
		if size > maxMemory {
			w.Fatalf("%d bytes in memory", size)
		}
		if now >= n {
			return
		}
		if time.Now().After(deadline) {
			w.Fatalf("%d bodies, want %d", now, n)
		}
	}
}

// Senders whose signature is wrong and whose bodies never end keep no message out, however slowly its own
// body arrives, even from the same address. Those without a signature do not get that far.
func TestSlowSendersKeepNobodyOut(t *testing.T) {
	w, server := slow(t)
	forged := sign(config.HookHMAC, "another-secret-of-this-length", "", time.Now(), "")
	attack := func(n int) {
		for range n {
			begin(t, server, "192.0.2.1", forged, 1000, "{")
		}
	}
	attack(60)
	const body = "half and half"
	message := begin(t, server, "192.0.2.1", sign(config.HookHMAC, secret, "", time.Now(), body), len(body), body[:4])
	w.await(61)
	attack(60)
	w.await(121)
	for range 60 {
		if code := begin(t, server, "192.0.2.1", http.Header{}, 1000, "{").answer(); code != 401 {
			t.Fatalf("without a signature: %d", code)
		}
	}
	w.await(121)
	message.send("%s", body[4:])
	if code := message.answer(); code != http.StatusAccepted {
		t.Errorf("a message whose body is slow: %d", code)
	}
}

// The memory for bodies is limited. The address that takes most of it gives up its largest body first.
func TestMemoryForBodies(t *testing.T) {
	w, server := slow(t)
	forged := sign(config.HookHMAC, "another-secret-of-this-length", "", time.Now(), "")
	large := strings.Repeat("x", MaxBody-1)
	var attackers []slowSender
	small := begin(t, server, "192.0.2.1", sign(config.HookHMAC, secret, "", time.Now(), "small"), 5, "s")
	other := begin(t, server, "192.0.2.2", sign(config.HookHMAC, secret, "", time.Now(), large+"x"), MaxBody, large)
	w.await(2)
	for range 2 * maxMemory / MaxBody {
		attackers = append(attackers, begin(t, server, "192.0.2.1", forged, MaxBody, large))
	}
	small.send("mall")
	if code := small.answer(); code != http.StatusAccepted {
		t.Errorf("a small body of the same address: %d", code)
	}
	other.send("x")
	if code := other.answer(); code != http.StatusAccepted {
		t.Errorf("a large body of another address: %d", code)
	}
	codes := []int{}
	for _, s := range attackers {
		s.send("x")
		codes = append(codes, s.answer())
	}
	if !slices.Contains(codes, http.StatusServiceUnavailable) {
		t.Errorf("answers to bodies that need more than the memory: %v", codes)
	}
	w.await(0)
}

// A body that is a little too large is read before the answer: many senders read the answer only after they
// have sent everything.
func TestOneByteTooMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hooked(config.HookHMAC, secret))
	text := strings.Repeat("x", MaxBody+1)
	body := strings.NewReader(text)
	q := httptest.NewRequest(http.MethodPost, Path+"repo", body)
	q.Header = sign(config.HookHMAC, secret, "", time.Now(), text)
	w.want("one byte too many", w.do(q), http.StatusRequestEntityTooLarge, TooLarge)
	if body.Len() > 0 {
		t.Errorf("%d bytes were not read", body.Len())
	}
}
