package sessiontest

import (
	"bufio"
	"encoding/json"
	"io"
	"sync"
	"time"
)

// ServeStdio serves one client over newline-delimited JSON until r ends or Disconnect is called. It
// then closes w if that is an io.Closer, and returns when everything that it started has ended.
func (s *Fake) ServeStdio(r io.Reader, w io.Writer) {
	var mu sync.Mutex
	p := newPeer(func(raw []byte) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = w.Write(append(raw, '\n'))
	})
	s.join(p)
	var wg sync.WaitGroup
	closeBoth := sync.OnceFunc(func() {
		s.leave(p)
		if c, ok := w.(io.Closer); ok {
			_ = c.Close()
		}
		if c, ok := r.(io.Closer); ok {
			_ = c.Close()
		}
	})
	wg.Go(func() { <-p.closed; closeBoth() })
	in := bufio.NewReader(r)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		s.receive(&wg, p, line)
	}
	closeBoth()
	wg.Wait()
}

// receive handles one line.
func (s *Fake) receive(wg *sync.WaitGroup, p *peer, line []byte) {
	var m message
	if json.Unmarshal(line, &m) != nil {
		return
	}
	s.log(m, line, nil)
	switch {
	case m.Method == "notifications/cancelled":
		var q struct {
			RequestID json.RawMessage `json:"requestId"`
		}
		_ = json.Unmarshal(m.Params, &q)
		s.endListen(p, q.RequestID, false)
		return
	case len(m.ID) == 0 || m.Method == "":
		return
	}
	f := s.fault(m.Method, m.Params)
	switch {
	case p.stuck:
	case f != nil && f.Stuck:
		p.stuck = true
	case f != nil && f.Dies:
		s.leave(p)
	case f == nil:
		s.respond(wg, p, m)
	case f.Silent:
	case f.Delay > 0:
		var old map[string]any
		if f.Old {
			old = s.answer(p, m)
		}
		wg.Go(func() {
			t := time.NewTimer(f.Delay)
			defer t.Stop()
			select {
			case <-t.C:
			case <-p.closed:
				return
			}
			if out, ok := f.reply(m); ok {
				p.send(out)
			} else if old != nil {
				p.send(old)
			} else {
				s.respond(wg, p, m)
			}
		})
	default:
		if out, ok := f.reply(m); ok {
			p.send(out)
		}
	}
}

func (s *Fake) respond(wg *sync.WaitGroup, p *peer, m message) {
	if isEvents(m) && s.Events != nil {
		s.respondEvents(wg, p, m)
		return
	}
	if m.Method != "subscriptions/listen" || !s.Modern {
		p.send(s.answer(p, m))
		return
	}
	l, err := s.startListen(p, m)
	if err != nil {
		p.send(m.failed(err))
		return
	}
	wg.Go(func() {
		select {
		case graceful := <-l.end:
			if graceful {
				p.send(completed(m))
			}
		case <-p.closed:
		}
	})
}

// Pipe serves a client in this process. The returned ends are for use with session.OverIO. Closing
// them stops serving; wait returns after that.
func (s *Fake) Pipe() (r io.ReadCloser, w io.WriteCloser, wait func()) {
	toServer, in := io.Pipe()
	out, fromServer := io.Pipe()
	var wg sync.WaitGroup
	wg.Go(func() { s.ServeStdio(toServer, fromServer) })
	return out, in, wg.Wait
}
