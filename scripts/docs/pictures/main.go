// Pictures takes the screenshots of the README with Chromium: the dashboard of serve-sse --demo, and
// the output of watch --demo, converted to HTML. See scripts/pictures.sh.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	terminal "github.com/buildkite/terminal-to-html/v3"
	"github.com/chromedp/chromedp"
)

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: pictures MCPTRACK DIR")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	program, dir := os.Args[1], os.Args[2]
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox,
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("disable-dev-shm-usage", true))
	browser, stop := chromedp.NewExecAllocator(ctx, opts...)
	defer stop()
	if err := errors.Join(dashboard(browser, program, filepath.Join(dir, "dashboard.png")),
		lines(browser, program, filepath.Join(dir, "terminal.png"))); err != nil {
		log.Fatal(err)
	}
}

// watching is how long the demo runs before the screenshot of the dashboard.
const watching = 25 * time.Second

func dashboard(ctx context.Context, program, file string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "serve-sse", "--demo", "--addr", "127.0.0.1:0")
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	stderr, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() { cancel(); _ = cmd.Wait() }() // stopped, so an error is expected
	line, err := bufio.NewReader(stderr).ReadString('\n')
	if err != nil {
		return err
	}
	_, url, ok := strings.Cut(strings.TrimSpace(line), "listening on ")
	if !ok {
		return fmt.Errorf("serve-sse says %q", line)
	}
	return photograph(ctx, url, 1200, 760, file, chromedp.Sleep(watching),
		chromedp.Click("#rail-list [role=treeitem]"), chromedp.Click("#tab-diff"), chromedp.Sleep(2*time.Second))
}

func lines(ctx context.Context, program, file string) error {
	cmd := exec.CommandContext(ctx, program, "watch", "--demo", "--color", "always", "--count", "14")
	out, err := cmd.Output()
	if err != nil {
		return err
	}
	// In a pipe, watch prints UTC times; everything else is the same as on a terminal.
	screen, err := terminal.NewScreen(terminal.WithSize(200, 200))
	if err != nil {
		return err
	}
	if _, err := screen.Write(append([]byte("\x1b[1m$ mcptrack watch --demo\x1b[0m\n"), bytes.TrimSpace(out)...)); err != nil {
		return err
	}
	page, err := os.CreateTemp("", "terminal-*.html")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(page.Name()) }()
	fmt.Fprintf(page, `<meta charset="utf-8"><style>
body { margin: 0; background: #16181d; color: #d8dbe2; }
pre { margin: 0; padding: 20px 24px; font: 14px/1.45 "DejaVu Sans Mono", monospace; }
.term-fg1 { font-weight: bold; } .term-fg2 { color: #868c98; }
.term-fg31 { color: #ff6b68; } .term-fg32 { color: #7bd88f; } .term-fg33 { color: #f7c948; }
.term-fg34 { color: #6cb2ff; } .term-fg35 { color: #d68cff; } .term-fg36 { color: #5fd7d7; } .term-fg90 { color: #868c98; }
</style><pre>%s</pre>`, screen.AsHTML())
	if err := page.Close(); err != nil {
		return err
	}
	return photograph(ctx, "file://"+page.Name(), 800, 0, file)
}

// photograph opens a page, runs the steps and saves a screenshot. With height 0 it shows the full
// page.
func photograph(ctx context.Context, url string, width, height int64, file string, steps ...chromedp.Action[chromedp.Void]) error {
	tab, cancel := chromedp.NewContext(ctx)
	defer cancel()
	capture := chromedp.CaptureScreenshot()
	if height == 0 {
		height, capture = 100, chromedp.FullScreenshot(100)
	}
	open := chromedp.Steps(append([]chromedp.Action[chromedp.Void]{chromedp.EmulateViewport(width, height), chromedp.Navigate(url)}, steps...)...)
	if err := chromedp.Do(tab, open); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	picture, err := chromedp.Run(tab, capture)
	if err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return os.WriteFile(file, picture, 0o644)
}
