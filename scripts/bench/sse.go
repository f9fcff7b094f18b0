//go:build linux

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A fanout is many clients of one serve-sse, which gets updates of distinct
// resources at a rate.
type fanout struct {
	scenario    string
	turns       int
	clients     int
	count, rate int
	deliveries  float64 // goal: at least so many a second, 0 for none
	p99         float64 // goal: at most so many ms
}

// sse measures serve-sse with durability always: a server notifies mcptrack of
// changes, mcptrack stores them and sends them to all clients. Latency is from the sending
// server to the client's read; server, mcptrack and clients share this machine.
func (b *bench) sse(ctx context.Context) error {
	for _, f := range []fanout{
		{scenario: "sse idle", turns: b.runs, clients: 1, count: 100, rate: 20, p99: 5},
		{scenario: "sse 1000 x 600/s", turns: b.runs, clients: 1000, count: 3000, rate: 600, deliveries: 500_000, p99: 100},
		{scenario: "sse 5000 x 60/s", turns: b.seldom(), clients: 5000, count: 300, rate: 60, p99: 200},
	} {
		for range f.turns {
			if err := b.fanOut(ctx, f); err != nil {
				return fmt.Errorf("%s: %w", f.scenario, err)
			}
		}
		b.report.atMost(0, f.scenario, "lost")
		b.report.atMost(0, f.scenario, "twice or out of order")
		b.report.atMost(f.p99, f.scenario, "p99")
		if f.deliveries > 0 {
			b.report.atLeast(f.deliveries, f.scenario, "deliveries")
		}
	}
	for range b.seldom() {
		if err := b.idleClients(ctx, 2000); err != nil {
			return fmt.Errorf("idle clients: %w", err)
		}
	}
	b.report.atMost(30, "sse 2000 idle clients", "RSS per client")
	return nil
}

func (b *bench) fanOut(ctx context.Context, f fanout) (err error) {
	l := load{resources: f.count, count: f.count, rate: f.rate, times: b.times(), after: filepath.Join(b.tmp, "go")}
	_ = os.Remove(l.after)
	s, err := b.serve(ctx, b.dataDir(), l, "--max-clients", strconv.Itoa(f.clients+10))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	runtime.LockOSThread() // the clients are one thread
	defer runtime.UnlockOSThread()
	ls, err := listen(s.addr, f.clients, 20*time.Second)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ls.close()) }()
	ls.expect(f.count)
	before, err := cpuTime(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	if err := os.WriteFile(l.after, nil, 0o600); err != nil {
		return err
	}
	limit := time.Now().Add(time.Duration(f.count/f.rate)*time.Second + 20*time.Second)
	// What is not received in time is reported as lost.
	late := ls.until(limit, func() bool { return ls.arrived == f.clients*f.count })
	cpu, err := cpuTime(s.cmd.Process.Pid)
	if err != nil {
		return err
	}
	sent, err := readTimes(l.times)
	if err != nil {
		return errors.Join(late, err)
	}
	delays, lost := ls.delays(sent)
	n := len(delays)
	if n == 0 {
		return errors.Join(late, errors.New("nothing came"))
	}
	last := ls.base.UnixNano()
	for _, at := range ls.arrivals {
		last = max(last, ls.base.UnixNano()+int64(at)*1000)
	}
	r := b.report
	r.add(f.scenario, "deliveries", "/s", "mcptrack", float64(n)/(float64(last-sent[0])/1e9))
	r.percentiles(f.scenario, "", "ms", "mcptrack", delays)
	r.add(f.scenario, "lost", "", "mcptrack", float64(lost))
	r.add(f.scenario, "clients closed", "", "mcptrack", float64(ls.ended))
	r.add(f.scenario, "twice or out of order", "", "mcptrack", float64(ls.twice+ls.disorder))
	r.add(f.scenario, "CPU per million deliveries", "s", "mcptrack", (cpu-before).Seconds()*1e6/float64(n))
	return nil
}

// idleClients measures the memory of clients that receive nothing.
func (b *bench) idleClients(ctx context.Context, n int) (err error) {
	s, err := b.serve(ctx, b.dataDir(), load{resources: 1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	before, err := memory(s.cmd.Process.Pid, "VmRSS")
	if err != nil {
		return err
	}
	ls, err := listen(s.addr, n, 20*time.Second)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, ls.close()) }()
	after, err := memory(s.cmd.Process.Pid, "VmRSS")
	if err != nil {
		return err
	}
	b.report.add(fmt.Sprintf("sse %d idle clients", n), "RSS per client", "KiB", "mcptrack", (after-before)*1024/float64(n))
	return nil
}

// dataDir is a new name for a data directory.
func (b *bench) dataDir() string {
	b.dirs++
	return filepath.Join(b.tmp, fmt.Sprintf("data%d", b.dirs))
}

// served is a running serve-sse.
type served struct {
	*running
	addr netip.AddrPort
}

// serve starts serve-sse on a data directory, with one load server, and waits
// until it is ready.
func (b *bench) serve(ctx context.Context, dir string, l load, flags ...string) (*served, error) {
	file, err := b.writeConfig(map[string]any{"blast": b.blastEntry(l)})
	if err != nil {
		return nil, err
	}
	argv := append([]string{b.mcptrack, "--config", file, "serve-sse", "--addr", "127.0.0.1:0", "--data-dir", dir}, flags...)
	r, url, err := startServer(ctx, argv...)
	if err != nil {
		return nil, err
	}
	s := &served{running: r}
	if s.addr, err = netip.ParseAddrPort(strings.TrimPrefix(url, "http://")); err == nil {
		err = s.ready(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("serve-sse: %w", err), s.close())
	}
	return s, nil
}

// ready waits until every server was tried.
func (s *served) ready(ctx context.Context) error {
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(2 * time.Millisecond) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr.String()+"/readyz", nil)
		if err != nil {
			return err
		}
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(res.Status)
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return fmt.Errorf("not ready: %w", err)
		}
	}
}

// close closes idle connections first, as serve-sse waits for clients.
func (s *served) close() error {
	http.DefaultClient.CloseIdleConnections()
	return s.running.close()
}

// listeners are many HTTP/1.1 clients of one event stream in one thread. They share the cores with the
// server they measure, so they use raw sockets and parse only the id and the URI of a frame.
type listeners struct {
	poll   int                 // an epoll
	byFD   map[int32]*listener // those that are open
	events []syscall.EpollEvent
	buf    []byte // of one read

	joined int // have seen their first frame
	ended  int // were closed by the server

	// What came of a load of count updates, once expect was called.
	count    int
	arrived  int // of count at every client
	base     time.Time
	arrivals []uint32 // of update i at client c, at c*count+i: µs after base, 0 for never
	twice    int      // came again
	disorder int      // came with an id that is not above the one before
}

// listener is one client.
type listener struct {
	n      int // its number
	fd     int
	begun  bool   // the header has been read
	left   int    // of the chunk
	skip   int    // of the line end behind the chunk
	raw    []byte // the begin of what is to be decoded
	text   []byte // the begin of a frame
	joined bool
	last   uint64 // number of the last id
}

// joining is how many clients connect at a time: a server may close connections without a
// request when there are many of one address, and on a busy machine requests are read late.
const joining = 64

// listen connects n clients and waits until each has its first frame, a checkpoint.
func listen(addr netip.AddrPort, n int, limit time.Duration) (*listeners, error) {
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	ls := &listeners{poll: poll, byFD: make(map[int32]*listener, n), events: make([]syscall.EpollEvent, 512), buf: make([]byte, 128<<10)}
	request := fmt.Appendf(nil, "GET /events?type=resource.updated HTTP/1.1\r\nHost: %s\r\n\r\n", addr)
	deadline := time.Now().Add(limit)
	for i := range n {
		if err := ls.connect(i, addr, request); err != nil {
			return nil, errors.Join(fmt.Errorf("client %d: %w", i, err), ls.close())
		}
		missing := 0 // when the next one may connect
		if i+1 < n {
			missing = joining - 1
		}
		err := ls.until(deadline, func() bool { return i+1-ls.joined <= missing || ls.ended > 0 })
		if err == nil && ls.ended == 0 {
			continue
		}
		return nil, errors.Join(fmt.Errorf("%d of %d clients have a stream, %d were refused", ls.joined, n, ls.ended), err, ls.close())
	}
	return ls, nil
}

func (ls *listeners) connect(n int, addr netip.AddrPort, request []byte) error {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	l := &listener{n: n, fd: fd}
	ls.byFD[int32(fd)] = l
	if err := syscall.Connect(fd, &syscall.SockaddrInet4{Port: int(addr.Port()), Addr: addr.Addr().As4()}); err != nil {
		return err
	}
	if _, err := syscall.Write(fd, request); err != nil {
		return err
	}
	return errors.Join(syscall.SetNonblock(fd, true),
		syscall.EpollCtl(ls.poll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(fd)}))
}

// expect makes room for the arrivals of count updates.
func (ls *listeners) expect(count int) {
	ls.count, ls.base = count, time.Now()
	ls.arrivals = make([]uint32, count*len(ls.byFD))
}

// until serves all clients until done says so, or all were closed.
func (ls *listeners) until(deadline time.Time, done func() bool) error {
	for !done() && len(ls.byFD) > 0 {
		if time.Now().After(deadline) {
			return fmt.Errorf("%d joined, %d updates arrived, %d ended when time was over", ls.joined, ls.arrived, ls.ended)
		}
		if err := ls.wait(100 * time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// wait takes what has come, or what comes first within the limit.
func (ls *listeners) wait(limit time.Duration) error {
	n, err := syscall.EpollWait(ls.poll, ls.events, int(limit.Milliseconds()))
	if err != nil && !errors.Is(err, syscall.EINTR) {
		return fmt.Errorf("epoll: %w", err)
	}
	for _, ready := range ls.events[:max(n, 0)] {
		l := ls.byFD[ready.Fd]
		n, err := syscall.Read(l.fd, ls.buf)
		switch {
		case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR):
		case err != nil || n == 0:
			ls.end(l)
		default:
			if err := ls.take(l, ls.buf[:n]); err != nil {
				return fmt.Errorf("client %d: %w", l.n, err)
			}
		}
	}
	return nil
}

func (ls *listeners) end(l *listener) {
	ls.ended++
	delete(ls.byFD, int32(l.fd))
	_ = syscall.Close(l.fd)
}

// take looks at the frames that became complete.
func (ls *listeners) take(l *listener, read []byte) error {
	text, err := l.decode(read)
	if err != nil {
		return err
	}
	var now uint32
	if ls.count > 0 {
		now = uint32(time.Since(ls.base).Microseconds())
	}
	for {
		end := bytes.Index(text, frameEnd)
		if end < 0 {
			l.text = append(l.text[:0], text...)
			return nil
		}
		frame := text[:end]
		text = text[end+len(frameEnd):]
		if err := ls.frame(l, frame, now); err != nil {
			return err
		}
	}
}

var (
	frameEnd  = []byte("\n\n")
	headEnd   = []byte("\r\n\r\n")
	idMark    = []byte("id: ")
	mcpUpdate = []byte(blastURI)
)

// frame notes one frame, of which the id and the URI count.
func (ls *listeners) frame(l *listener, frame []byte, now uint32) error {
	_, rest, found := bytes.Cut(frame, idMark)
	if !found { // the time to retry, or a heartbeat
		return nil
	}
	if !l.joined {
		l.joined = true
		ls.joined++
	}
	_, uri, found := bytes.Cut(rest, mcpUpdate)
	if !found { // a checkpoint
		return nil
	}
	var seq uint64
	for _, c := range rest[bytes.IndexByte(rest, '-')+1:] {
		if c < '0' || c > '9' {
			break
		}
		seq = seq*10 + uint64(c-'0')
	}
	if seq <= l.last {
		ls.disorder++
	}
	l.last = seq
	i := 0
	for _, c := range uri[:6] {
		i = i*10 + int(c-'0')
	}
	switch {
	case i == 999999: // blastDone
	case i < 0 || i >= ls.count:
		return fmt.Errorf("an update that nobody sent: %.200s", frame)
	default:
		at := &ls.arrivals[l.n*ls.count+i]
		if *at != 0 {
			ls.twice++
			return nil
		}
		*at = max(now, 1)
		ls.arrived++
	}
	return nil
}

// decode returns the content of the chunks, after the start of a frame left from before.
func (l *listener) decode(raw []byte) ([]byte, error) {
	if len(l.raw) > 0 {
		raw = append(l.raw, raw...)
		l.raw = nil
	}
	text := l.text
	for len(raw) > 0 {
		switch {
		case !l.begun:
			head, rest, found := bytes.Cut(raw, headEnd)
			if !found {
				l.raw = bytes.Clone(raw)
				return text, nil
			}
			if !bytes.HasPrefix(head, []byte("HTTP/1.1 200 ")) || !bytes.Contains(head, []byte("chunked")) {
				return nil, fmt.Errorf("answer %.200q", head)
			}
			raw, l.begun = rest, true
		case l.left > 0:
			n := min(l.left, len(raw))
			text, raw = append(text, raw[:n]...), raw[n:]
			if l.left -= n; l.left == 0 {
				l.skip = 2
			}
		case l.skip > 0:
			n := min(l.skip, len(raw))
			raw, l.skip = raw[n:], l.skip-n
		default:
			size, rest, found := bytes.Cut(raw, headEnd[:2])
			if !found {
				l.raw = bytes.Clone(raw)
				return text, nil
			}
			n, err := strconv.ParseUint(string(size), 16, 31)
			if err != nil {
				return nil, fmt.Errorf("chunk: %w", err)
			}
			raw, l.left = rest, int(n)
		}
	}
	return text, nil
}

// delays returns the ms from sending to arrival of all updates at all clients, and how many never
// arrived.
func (ls *listeners) delays(sent []int64) (delays []float64, lost int) {
	delays = make([]float64, 0, len(ls.arrivals))
	base := ls.base.UnixNano()
	for at, took := range ls.arrivals {
		if took == 0 {
			lost++
			continue
		}
		delays = append(delays, float64(base+int64(took)*1000-sent[at%ls.count])/1e6)
	}
	return delays, lost
}

// close leaves.
func (ls *listeners) close() error {
	for _, l := range ls.byFD {
		_ = syscall.Close(l.fd)
	}
	clear(ls.byFD)
	return syscall.Close(ls.poll)
}
