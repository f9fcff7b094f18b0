//go:build unix

package process_test

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/mcptrack/mcptrack/core/process"
)

// echo runs input through a real child and returns what the reader made of it.
func echo(t *testing.T, s process.Spec, input string, wrap func(io.Reader) io.Reader) (string, *process.Process, error) {
	t.Helper()
	p, err := process.Start(s)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop(process.Grace{Stdin: -1, Term: -1})
	go func() { // ends with the write or with Stop
		io.WriteString(p.Stdin(), input)
		p.Stdin().Close()
	}()
	out, err := io.ReadAll(wrap(stdout(p)))
	return string(out), p, err
}

func TestStdoutKeepsMessagesOnly(t *testing.T) {
	big := `{"big":"` + strings.Repeat("x", 300<<10) + `"}`
	for name, tc := range map[string]struct {
		in, out string
		noise   int
	}{
		"plain":           {"{}\n[]\n", "{}\n[]\n", 0},
		"banner":          {"npm WARN\n{}\nlistening on 3000\n{\"a\":1}\n", "{}\n{\"a\":1}\n", 2},
		"bom":             {"\xEF\xBB\xBF{}\n{}\n", "{}\n{}\n", 0},
		"crlf and blanks": {"  {}\r\n\t[1] \r\n", "{}\n[1]\n", 0},
		"blank lines":     {"\n\r\n{}\n\n", "{}\n", 3},
		"binary":          {"\x00\xff\x1b[2J\n{}\n\xEF\xBBx\n", "{}\n", 2},
		"partial message": {"{}\n{\"a\":", "{}\n", 1},
		"whole at end":    {"{}\n {\"a\":1}", "{}\n{\"a\":1}\n", 0},
		"noise at end":    {"{}\nbye", "{}\n", 1},
		"big message":     {big + "\n{}\n" + big, big + "\n{}\n" + big + "\n", 0},
		"long noise line": {strings.Repeat("y", 100<<10) + "\n{}\n", "{}\n", 1},
		"long noise end":  {"{}\n" + strings.Repeat("y", 100<<10), "{}\n", 1},
		"nothing":         {"", "", 0},
	} {
		t.Run(name, func(t *testing.T) {
			for _, wrap := range []func(io.Reader) io.Reader{
				func(r io.Reader) io.Reader { return r },
				func(r io.Reader) io.Reader { return io.LimitReader(r, 1<<30) },
				iotest.HalfReader,
			} {
				out, p, err := echo(t, spec("cat"), tc.in, wrap)
				if err != nil || out != tc.out {
					t.Fatalf("got %.200q, %v\nwant %.200q", out, err, tc.out)
				}
				if p.Skipped() != tc.noise {
					t.Fatalf("noise %d, want %d", p.Skipped(), tc.noise)
				}
			}
		})
	}
}

func TestStdoutFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		spec func(*process.Spec)
		in   string
		want string
		out  string
	}{
		"101 lines":        {nil, "{}\n" + strings.Repeat("noise\n", 101) + "{}\n", "more than 100 consecutive lines", "{}\n"},
		"a MiB":            {nil, strings.Repeat(strings.Repeat("n", 50<<10)+"\n", 30), "more than 1048576 consecutive bytes", ""},
		"a MiB, one line":  {nil, "{}\n" + strings.Repeat("n", 2<<20), "more than 1048576 consecutive bytes", "{}\n"},
		"long message":     {func(s *process.Spec) { s.MaxLine = 1000 }, "{}\n{" + strings.Repeat("n", 16000) + "\n", "a line is longer than 16000 bytes", "{}\n"},
		"long, no end yet": {func(s *process.Spec) { s.MaxLine = 100 << 10 }, "{" + strings.Repeat("n", 1700<<10), "a line is longer than", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := spec("cat")
			if tc.spec != nil {
				tc.spec(&s)
			}
			out, _, err := echo(t, s, tc.in, func(r io.Reader) io.Reader { return r })
			f, ok := errors.AsType[*process.FaultError](err)
			if !ok || !strings.Contains(f.Problem, tc.want) || out != tc.out {
				t.Fatalf("got %q, %v", out, err)
			}
		})
	}
}

// An overlong message is skipped, whether or not it fits into the buffer: its ends are known, and
// the next message is read.
func TestLongLines(t *testing.T) {
	for _, size := range []int{1001, 1003, 5000, 15_000} {
		for _, end := range []string{"\n", "\r\n"} {
			long := "{" + strings.Repeat("n", 900) + strings.Repeat("m", size-902) + "}"
			in := "{\"a\":1}\n" + long + end + "noise\n" + long + end + "{}\n" + long[:min(size, 4000)]
			for name, r := range map[string]io.Reader{"whole": strings.NewReader(in), "bytes": iotest.OneByteReader(strings.NewReader(in))} {
				lines := process.NewLines(r, process.Spec{MaxLine: 1000})
				var got []string
				for {
					line, err := lines.Next()
					if tooLong, ok := errors.AsType[*process.LongLineError](err); ok {
						tail := strings.TrimRight(string(tooLong.Tail), "\r\n")
						if !strings.HasPrefix(long, string(tooLong.Head)) || len(tooLong.Head) != 256 || !strings.HasSuffix(long, tail) || len(tail) < 254 || tooLong.Limit != 1000 {
							t.Errorf("%d bytes, %s: %q", size, name, tooLong)
						}
						got = append(got, "long")
						continue
					}
					if err != nil {
						got = append(got, err.Error())
						break
					}
					got = append(got, string(line))
				}
				if want := []string{"{\"a\":1}\n", "long", "long", "{}\n", "EOF"}; !slices.Equal(got, want) {
					t.Errorf("%d bytes, %s: %q, want %q", size, name, got, want)
				}
			}
		}
	}
}

func TestNoiseWithinLimits(t *testing.T) {
	in := strings.Repeat(strings.Repeat("noise\n", 100)+"{}\n", 5)
	s := spec("cat")
	var log bytes.Buffer
	s.Logger = slog.New(slog.NewTextHandler(&log, nil))
	out, p, err := echo(t, s, in, func(r io.Reader) io.Reader { return r })
	if err != nil || out != strings.Repeat("{}\n", 5) || p.Skipped() != 500 {
		t.Fatalf("got %q, %v, %d noise lines", out, err, p.Skipped())
	}
	if n := strings.Count(log.String(), "line=noise"); n < 5 || n > 20 {
		t.Fatalf("logged %d of 500 noise lines", n)
	}
}

func TestMaxLineIsExact(t *testing.T) {
	s := spec("cat")
	s.MaxLine = 70000
	line := "{" + strings.Repeat("n", 69998) + "}"
	for _, end := range []string{"\n", "\r\n"} {
		out, _, err := echo(t, s, line+end, func(r io.Reader) io.Reader { return r })
		if err != nil || out != line+"\n" {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
	}
}

// An endless line must neither fill our memory nor keep the child, although the child ignores
// SIGTERM.
func TestEndlessLine(t *testing.T) {
	var before, after runtime.MemStats
	p := start(t, "long-line")
	runtime.ReadMemStats(&before)
	n, err := io.Copy(io.Discard, stdout(p))
	runtime.ReadMemStats(&after)
	if _, ok := errors.AsType[*process.FaultError](err); !ok || n != 0 {
		t.Fatalf("got %d bytes, %v", n, err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 20<<20 {
		t.Fatalf("allocated %d MiB", grown>>20)
	}
	began := time.Now()
	wait(t, p) // without Stop
	if e := p.Exit(); e.Signal != "SIGKILL" {
		t.Fatalf("got %v after %v", e, time.Since(began))
	}
}
