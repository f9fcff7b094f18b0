//go:build linux

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	vaultNotes = 10_000
	vaultEdits = 40 // each takes as long as mcptrack waits for further saves
)

// vault measures a vault of 10,000 notes: its start until it answers, from the save
// of a note until its subscriber is notified, its memory, and a checkout of all notes.
func (b *bench) vault(ctx context.Context) error {
	var saves []float64 // ms
	for range b.runs {
		took, err := b.vaultOnce(ctx, b.vaultDir())
		if err != nil {
			return err
		}
		saves = append(saves, took...)
	}
	b.report.percentiles("vault", "save to update, ", "ms", "mcptrack", saves)
	b.report.atMost(1000, "vault", "start")
	b.report.atMost(300, "vault", "save to update, p99")
	b.report.atMost(100, "vault", "RSS")
	b.report.atMost(100, "vault", "RSS after a search")
	b.report.atMost(5000, "vault", "all notified after it")
	b.report.atMost(4, "vault", "updates of one resource")
	return nil
}

func (b *bench) vaultDir() string { return filepath.Join(b.tmp, "vault") }

// prepareVault creates a git repository of notes of about 2 KiB. Every note differs between its
// two branches.
func (b *bench) prepareVault(ctx context.Context) error {
	dir := b.vaultDir()
	random := rand.New(rand.NewPCG(1, 2))
	for _, branch := range []string{"one", "two"} {
		for i := range vaultNotes {
			var s strings.Builder
			fmt.Fprintf(&s, "---\ntags: [t%d, %s]\n---\n# Note %d\n\n", i%300, branch, i)
			for word := range 250 {
				fmt.Fprintf(&s, "word%d ", int(random.ExpFloat64()*800))
				if word%25 == 24 {
					fmt.Fprintf(&s, "[[n%d]] #x/y%d\n\n", random.IntN(vaultNotes), i%50)
				}
			}
			path := filepath.Join(dir, vaultPath(i))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(s.String()), 0o644)); err != nil {
				return err
			}
		}
		if branch == "one" {
			if err := git(ctx, dir, "init", "-q"); err != nil {
				return err
			}
		}
		for _, args := range [][]string{{"add", "-A"}, {"commit", "-q", "-m", branch}, {"branch", branch}} {
			if err := git(ctx, dir, args...); err != nil {
				return err
			}
		}
	}
	return nil
}

func vaultPath(i int) string { return fmt.Sprintf("f%d/g%d/n%d.md", i%20, i%97, i) }

func git(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_CONFIG_NOSYSTEM=1",
		"GIT_AUTHOR_NAME=b", "GIT_AUTHOR_EMAIL=b@example.com", "GIT_COMMITTER_NAME=b", "GIT_COMMITTER_EMAIL=b@example.com")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", args[0], err, out)
	}
	return nil
}

// vaultOnce measures one start of a vault. It returns how long its saves took, in ms.
func (b *bench) vaultOnce(ctx context.Context, dir string) (saves []float64, err error) {
	if err := git(ctx, dir, "checkout", "-q", "-f", "one"); err != nil {
		return nil, err
	}
	c, err := openVault(ctx, b.mcptrack, dir)
	if err != nil {
		return nil, err
	}
	defer c.close()
	if _, err := c.ask("initialize", `{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}`); err != nil {
		return nil, err
	}
	b.report.add("vault", "start", "ms", "mcptrack", milliseconds(time.Since(c.began)))
	if cpu, err := cpuTime(c.cmd.Process.Pid); err == nil {
		b.report.add("vault", "CPU of the start", "ms", "mcptrack", milliseconds(cpu))
	}
	if _, err := io.WriteString(c.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		return nil, err
	}
	if saves, err = b.vaultSaves(c, dir); err != nil {
		return nil, err
	}
	if err := b.vaultMemory(c, "RSS"); err != nil {
		return nil, err
	}
	if err := b.vaultCheckout(ctx, c, dir); err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := c.ask("tools/call", `{"name":"search_notes","arguments":{"query":"word5 word90"}}`); err != nil {
		return nil, err
	}
	b.report.add("vault", "first search", "ms", "mcptrack", milliseconds(time.Since(began)))
	return saves, b.vaultMemory(c, "RSS after a search")
}

// vaultSaves saves one note after another, each once the subscriber was notified of the one before.
func (b *bench) vaultSaves(c *vaultClient, dir string) (took []float64, err error) {
	for i := range vaultEdits {
		uri := "vault://note/" + vaultPath(i)
		if _, err := c.ask("resources/subscribe", fmt.Sprintf(`{"uri":%q}`, uri)); err != nil {
			return nil, err
		}
		text := fmt.Appendf(nil, "# Note %d\n\nsaved at %v", i, time.Now())
		if err := os.WriteFile(filepath.Join(dir, vaultPath(i)), text, 0o644); err != nil {
			return nil, err
		}
		saved := time.Now()
		if err := c.until(func(m vaultMessage) bool { return m.Params.URI == uri }); err != nil {
			return nil, err
		}
		took = append(took, milliseconds(time.Since(saved)))
	}
	return took, nil
}

// vaultCheckout replaces every note and waits until the tags reflect it.
func (b *bench) vaultCheckout(ctx context.Context, c *vaultClient, dir string) error {
	for _, uri := range []string{"vault://recent", "vault://tags?mode=full", "vault://folder/"} {
		if _, err := c.ask("resources/subscribe", fmt.Sprintf(`{"uri":%q}`, uri)); err != nil {
			return err
		}
	}
	clear(c.notified)
	before, _ := cpuTime(c.cmd.Process.Pid)
	began := time.Now()
	if err := git(ctx, dir, "checkout", "-q", "-f", "two"); err != nil {
		return err
	}
	checkedOut := time.Since(began)
	want := fmt.Sprintf("\\\"two\\\",\\n      \\\"count\\\": %d\\n", vaultNotes)
	for {
		tags, err := c.ask("resources/read", `{"uri":"vault://tags?mode=full"}`)
		if err != nil {
			return err
		}
		if strings.Contains(string(tags), want) {
			break
		}
		if time.Since(began) > streamLimit/2 {
			return errors.New("the checkout is never seen")
		}
		if err := c.until(func(m vaultMessage) bool { return strings.HasPrefix(m.Params.URI, "vault://tags") }); err != nil {
			return err
		}
	}
	b.report.add("vault", "checkout of 10,000 files", "ms", "git", milliseconds(checkedOut))
	b.report.add("vault", "all notified after it", "ms", "mcptrack", milliseconds(time.Since(began)-checkedOut))
	after, err := cpuTime(c.cmd.Process.Pid)
	if err != nil {
		return err
	}
	b.report.add("vault", "CPU of the checkout", "ms", "mcptrack", milliseconds(after-before))
	most := 0
	for _, times := range c.notified {
		for i := range times {
			n := 0
			for j := i; j < len(times) && times[j].Sub(times[i]) < time.Second-20*time.Millisecond; j++ { // as they arrive, not as they are sent
				n++
			}
			most = max(most, n)
		}
	}
	b.report.add("vault", "updates of one resource", "/s", "mcptrack", float64(most))
	return nil
}

func (b *bench) vaultMemory(c *vaultClient, name string) error {
	mib, err := memory(c.cmd.Process.Pid, "VmRSS")
	if err != nil {
		return err
	}
	b.report.add("vault", name, "MiB", "mcptrack", mib)
	return nil
}

// vaultClient talks to a vault in lines of text: its own cost is negligible.
type vaultClient struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	began time.Time
	stop  context.CancelFunc
	id    int
	// lines are sent and closed by the reader; far more than ever wait, so that the
	// times are arrival times.
	lines    chan vaultLine
	notified map[string][]time.Time // when updates of each URI arrived
}

type vaultLine struct {
	raw []byte
	at  time.Time
}

type vaultMessage struct {
	ID     *int            `json:"id"`
	Method string          `json:"method"`
	Error  json.RawMessage `json:"error"`
	Params struct {
		URI string `json:"uri"`
	} `json:"params"`
	raw []byte
}

func openVault(ctx context.Context, mcptrack, dir string) (*vaultClient, error) {
	ctx, cancel := context.WithTimeout(ctx, streamLimit)
	cmd := exec.CommandContext(ctx, mcptrack, "vault", "--stdio", dir)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	in, err1 := cmd.StdinPipe()
	out, err2 := cmd.StdoutPipe()
	c := &vaultClient{cmd: cmd, in: in, began: time.Now(), stop: cancel, notified: map[string][]time.Time{}}
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		cancel()
		return nil, err
	}
	c.lines = make(chan vaultLine, 1<<16)
	go func() {
		defer close(c.lines)
		for r := bufio.NewReaderSize(out, 256<<10); ; {
			raw, err := r.ReadBytes('\n')
			if err != nil {
				return
			}
			c.lines <- vaultLine{raw, time.Now()}
		}
	}()
	return c, nil
}

func (c *vaultClient) close() {
	c.in.Close()
	for range c.lines {
	}
	_ = c.cmd.Wait() // how it ends is not measured
	c.stop()
}

// ask sends a request and returns its answer.
func (c *vaultClient) ask(method, params string) (answer []byte, err error) {
	c.id++
	if _, err := fmt.Fprintf(c.in, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", c.id, method, params); err != nil {
		return nil, err
	}
	err = c.until(func(m vaultMessage) bool {
		answer = m.raw
		return m.ID != nil && *m.ID == c.id
	})
	return answer, err
}

// until reads messages until one is as wanted.
func (c *vaultClient) until(is func(vaultMessage) bool) error {
	for line := range c.lines {
		m := vaultMessage{raw: line.raw}
		if err := json.Unmarshal(line.raw, &m); err != nil {
			return err
		}
		if m.Error != nil {
			return fmt.Errorf("the vault answered %s", m.Error)
		}
		if m.Method == "notifications/resources/updated" {
			c.notified[m.Params.URI] = append(c.notified[m.Params.URI], line.at)
		}
		if is(m) {
			return nil
		}
	}
	return errors.New("the vault ended")
}
