// Pictures makes the pictures of the README: the dashboard of serve-sse in Chromium, and the output of
// watch in a terminal of tmux, each in light and in dark. See scripts/pictures.sh.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	terminal "github.com/buildkite/terminal-to-html/v3"
	"github.com/chromedp/chromedp"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: pictures MCPTRACK DIR")
	}
	program, dir := os.Args[1], os.Args[2]
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox,
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("disable-dev-shm-usage", true))
	var errs []error
	for _, picture := range []func(ctx context.Context, program, dir string) error{dashboard, watch} {
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
		browser, stop := chromedp.NewExecAllocator(ctx, opts...)
		errs = append(errs, picture(browser, program, dir))
		stop()
		cancel()
	}
	if err := errors.Join(errs...); err != nil {
		log.Fatal(err)
	}
}

// dashboard takes the pictures of the dashboard while it shows the last change of a note.
func dashboard(ctx context.Context, program, dir string) (err error) {
	s, err := newScene(program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--config", s.config(), "serve-sse", "--addr", "127.0.0.1:0", "--data-dir", filepath.Join(s.dir, "data"))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	lines := bufio.NewReader(stderr)
	url, err := listening(lines)
	drained := make(chan struct{})
	go func() { // ends with the process
		defer close(drained)
		_, _ = io.Copy(io.Discard, lines)
	}()
	defer func() { cancel(); <-drained; _ = cmd.Wait() }() // stopped, so an error is expected
	if err != nil {
		return err
	}
	tab, closeTab := chromedp.NewContext(ctx)
	defer closeTab()
	p := page{tab}
	if err := p.open(url, 1200, 780); err != nil {
		return err
	}
	if err := showChange(p, s); err != nil {
		file := filepath.Join(os.TempDir(), "dashboard-failed")
		return errors.Join(err, fmt.Errorf("see %s-light.png", file), p.photograph(file))
	}
	return p.photograph(filepath.Join(dir, "dashboard"))
}

// showChange plays the scene, and opens the note that changes.
func showChange(p page, s *scene) error {
	if err := errors.Join(p.await("handbook"), s.play()); err != nil {
		return err
	}
	if err := p.openResource("handbook", "deploy.md"); err != nil {
		return err
	}
	return errors.Join(p.await("any day"), p.await("never on Fridays"))
}

// listening returns the URL that a server prints when it listens.
func listening(lines *bufio.Reader) (string, error) {
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return "", fmt.Errorf("the server did not listen: %w", err)
		}
		if _, url, ok := strings.Cut(strings.TrimSpace(line), "listening on "); ok {
			return url, nil
		}
	}
}

// columns and rows are the size of the terminal in the picture.
const columns, rows = 96, 30

// watch takes the pictures of a terminal in which watch --diff runs.
func watch(ctx context.Context, program, dir string) (err error) {
	s, err := newScene(program)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.remove()) }()
	tmux := func(args ...string) ([]byte, error) {
		return exec.CommandContext(ctx, "tmux", append([]string{"-S", filepath.Join(s.dir, "tmux"), "-f", "/dev/null"}, args...)...).Output()
	}
	shell := `printf '\033[1m$ mcptrack watch --diff\033[0m\n'; exec "$1" --config "$2" watch --diff`
	if _, err := tmux("new-session", "-d", "-x", strconv.Itoa(columns), "-y", strconv.Itoa(rows),
		"sh", "-c", shell, "sh", program, s.config()); err != nil {
		return fmt.Errorf("tmux: %w", err)
	}
	defer func() { _, _ = tmux("kill-server") }()
	screen := func() ([]byte, error) { return tmux("capture-pane", "-p", "-e") }
	seen := func(text string) error {
		for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(50 * time.Millisecond) {
			out, err := screen()
			if err != nil || bytes.Contains(out, []byte(text)) {
				return err
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("watch did not print %q:\n%s", text, out)
			}
		}
	}
	if err := seen("following 5"); err != nil {
		return err
	}
	time.Sleep(pause)
	if err := errors.Join(s.save("deploy.md", deploying[2]), seen("Fridays"), seen("count_words")); err != nil {
		return err
	}
	out, err := screen()
	if err != nil {
		return err
	}
	return terminalPage(ctx, s, bytes.TrimRight(out, "\n"), filepath.Join(dir, "terminal"))
}

// terminalPage converts what a terminal shows to a page, and takes its pictures.
func terminalPage(ctx context.Context, s *scene, out []byte, file string) error {
	screen, err := terminal.NewScreen(terminal.WithSize(200, 200))
	if err != nil {
		return err
	}
	if _, err := screen.Write(out); err != nil {
		return err
	}
	html := filepath.Join(s.dir, "terminal.html")
	if err := os.WriteFile(html, fmt.Appendf(nil, `<meta charset="utf-8"><style>
:root { color-scheme: light dark; }
body { margin: 0; background: light-dark(#fff, #16181d); color: light-dark(#1d2129, #d8dbe2); }
pre { margin: 0; padding: 18px 22px; font: 14px/1.45 "DejaVu Sans Mono", monospace; }
.term-fg1 { font-weight: bold; } .term-fg2, .term-fgi90 { color: light-dark(#68707e, #868c98); }
.term-fg31 { color: light-dark(#c4231c, #ff6b68); } .term-fg32 { color: light-dark(#177a3a, #7bd88f); }
.term-fg33 { color: light-dark(#8a6100, #f7c948); } .term-fg34 { color: light-dark(#1a5fb4, #6cb2ff); }
.term-fg35 { color: light-dark(#8b3fb5, #d68cff); } .term-fg36 { color: light-dark(#0a7280, #5fd7d7); }
</style><pre>%s</pre>`, screen.AsHTML()), 0o600); err != nil {
		return err
	}
	tab, closeTab := chromedp.NewContext(ctx)
	defer closeTab()
	p := page{tab}
	if err := p.open("file://"+html, 860, 100); err != nil {
		return err
	}
	height, err := chromedp.Run(tab, chromedp.Evaluate[int64](`Math.ceil(document.querySelector("pre").getBoundingClientRect().height)`))
	if err != nil {
		return err
	}
	if err := p.size(860, height); err != nil {
		return err
	}
	return p.photograph(file)
}
