package eventstream

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

func parse(r io.Reader, last string) (events []Event, p *Reader, err error) {
	p = NewReader(r, last, 1<<20, nil)
	for {
		e, err := p.Read()
		if err != nil {
			return events, p, err
		}
		events = append(events, e)
	}
}

func TestReader(t *testing.T) {
	for _, c := range []struct {
		name, in string
		want     []Event
	}{
		{"plain", "id: 1\nevent: a\ndata: x\n\n", []Event{{"1", "a", "x"}}},
		{"CRLF", "id: 1\r\nevent: a\r\ndata: x\r\n\r\n", []Event{{"1", "a", "x"}}},
		{"CR", "id: 1\revent: a\rdata: x\r\r", []Event{{"1", "a", "x"}}},
		{"no space", "id:1\nevent:a\ndata:x\n\n", []Event{{"1", "a", "x"}}},
		{"one space goes", "data:  x\n\n", []Event{{"", "message", " x"}}},
		{"many lines", "data: a\ndata\ndata:\ndata: b\n\n", []Event{{"", "message", "a\n\n\nb"}}},
		{"byte order mark", "\xef\xbb\xbfdata: x\n\n", []Event{{"", "message", "x"}}},
		{"comments, unknown fields", ": hi\nfoo: bar\n:\ndata: x\n\n", []Event{{"", "message", "x"}}},
		{"id stays", "id: 1\ndata: a\n\ndata: b\n\nid\ndata: c\n\n", []Event{{"1", "message", "a"}, {"1", "message", "b"}, {"", "message", "c"}}},
		{"id alone", "id: 1\n\ndata: b\n\n", []Event{{"1", "message", "b"}}},
		{"id with NUL", "id: 1\ndata: a\n\nid: 2\x00\ndata: b\n\n", []Event{{"1", "message", "a"}, {"1", "message", "b"}}},
		{"id that no header carries", "id: 1\ndata: a\n\nid: 2\x01\ndata: b\n\nid: 3\x7f\ndata: c\n\n", []Event{{"1", "message", "a"}, {"1", "message", "b"}, {"1", "message", "c"}}},
		{"type is of one event", "event: a\n\ndata: b\n\n", []Event{{"", "message", "b"}}},
		{"unfinished", "data: a\n\nid: 2\ndata: b\n", []Event{{"", "message", "a"}}},
		{"empty data", "data\n\n", []Event{{"", "message", ""}}},
		{"colon in value", "data: a: b\n\n", []Event{{"", "message", "a: b"}}},
		{"long", "data: " + strings.Repeat("x", 100_000) + "\n\n", []Event{{"", "message", strings.Repeat("x", 100_000)}}},
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(c.in), "by bytes": iotest.OneByteReader(strings.NewReader(c.in)), "in halves": iotest.HalfReader(strings.NewReader(c.in))} {
			got, _, err := parse(r, "")
			if !slices.Equal(got, c.want) || !errors.Is(err, io.EOF) {
				t.Errorf("%s, %s: %.200q, %v", c.name, name, got, err)
			}
		}
	}
	if _, p, _ := parse(strings.NewReader("retry: 1x\nretry: -1\nretry: +5\nretry: 2500\n"), ""); p.Retry() != 2500*time.Millisecond {
		t.Errorf("retry %v", p.Retry())
	}
	if _, p, _ := parse(strings.NewReader("id: 1\n\nid: 2\ndata: b\n"), ""); p.LastID() != "1" {
		t.Errorf("after an unfinished event, the last id is %q", p.LastID())
	}
	if _, _, err := parse(io.MultiReader(strings.NewReader("data: "), endless{}), ""); !errors.Is(err, ErrTooLarge) {
		t.Errorf("an endless line: %v", err)
	}
	if _, _, err := parse(&repeat{text: "data: x\n"}, ""); !errors.Is(err, ErrTooLarge) {
		t.Errorf("endless lines: %v", err)
	}
}

type endless struct{}

func (endless) Read(b []byte) (int, error) {
	for i := range b {
		b[i] = 'x'
	}
	return len(b), nil
}

type repeat struct{ text string }

func (r *repeat) Read(b []byte) (int, error) {
	n := 0
	for len(b)-n >= len(r.text) {
		n += copy(b[n:], r.text)
	}
	return n, nil
}

// However the stream is split into reads, the events are the same, every id can be sent back, and
// no type contains a line end.
func FuzzReader(f *testing.F) {
	f.Add("id: 1\r\ndata: a\rdata: b\n\n: c\n\nevent: x\ndata\n\n")
	f.Fuzz(func(t *testing.T, in string) {
		whole, _, _ := parse(strings.NewReader(in), "")
		bytes, _, _ := parse(iotest.OneByteReader(strings.NewReader(in)), "")
		if !slices.Equal(whole, bytes) {
			t.Errorf("%q and %q", whole, bytes)
		}
		for _, e := range whole {
			if !ValidID(e.ID) || strings.ContainsAny(e.Type, "\r\n") {
				t.Errorf("%q", e)
			}
		}
	})
}

// Comments are not part of an event: any number of them may precede one.
func TestCommentsDoNotCountAsPartOfAnEvent(t *testing.T) {
	alive := 0
	r := NewReader(strings.NewReader("data: a\n"+strings.Repeat(": here\n", 1000)+"\n"), "", 100, func() { alive++ })
	if e, err := r.Read(); err != nil || e.Data != "a" || alive == 0 {
		t.Errorf("%+v, %v, %d signs of life", e, err, alive)
	}
}

// Whatever is appended is one event, which reads back unchanged.
func FuzzAppend(f *testing.F) {
	f.Add("1", "a", "x\r\ny\rz\n\n")
	f.Add("1\n", "a\rb", "")
	f.Fuzz(func(t *testing.T, id, typ, data string) {
		b := Append(AppendComment(AppendRetry(nil, time.Second), "hi"), id, typ, []byte(data))
		got, r, _ := parse(bytes.NewReader(b), "")
		if len(b) > 1<<19 {
			t.Skip()
		}
		want := Event{ID: id, Type: typ, Data: strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(data)}
		if !ValidID(id) {
			want.ID = ""
		}
		if typ == "" || strings.ContainsAny(typ, "\r\n") {
			want.Type = DefaultType
		}
		if len(got) != 1 || got[0] != want || r.Retry() != time.Second {
			t.Errorf("%q reads as %q, want %q", b, got, want)
		}
	})
}

// A client that takes nothing fails the write after one deadline; a slow client does not. Interrupt
// immediately ends a write.
func TestWriterDeadlines(t *testing.T) {
	result := make(chan error, 1)
	var timeout time.Duration
	var interrupt bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		out := NewWriter(w, func() time.Time { return time.Now().Add(timeout) })
		if interrupt {
			defer time.AfterFunc(50*time.Millisecond, out.Interrupt).Stop()
		}
		_, err := out.Write(make([]byte, 64<<20))
		result <- errors.Join(err, out.Flush())
	}))
	defer srv.Close()
	for _, c := range []struct {
		timeout   time.Duration
		interrupt bool
		read      bool
	}{{200 * time.Millisecond, false, false}, {time.Hour, true, false}, {10 * time.Second, false, true}} {
		timeout, interrupt = c.timeout, c.interrupt
		res, err := http.Get(srv.URL)
		if err != nil && c.read { // a deadline may be over before the header was sent
			t.Fatal(err)
		}
		if c.read {
			_, _ = io.Copy(io.Discard, res.Body)
		}
		if err := <-result; c.read != (err == nil) || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%+v: %v", c, err)
		}
		if res != nil {
			_ = res.Body.Close()
		}
	}
}
