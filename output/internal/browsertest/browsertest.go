// Package browsertest drives a real Chromium in tests.
//
// A test package has one [Browser]: the first test that needs it starts it, and the package's
// TestMain closes it. Each test has its own browser context, and so its own cookies, locks and
// channels.
//
// Tests wait for conditions ([Tab.Until]) and count occurrences ([Tab.Number]); they do not measure
// time, because the machine may be busy.
package browsertest

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/mcptrack/mcptrack/core/peertest"
)

const (
	// patience is how long a test waits for a condition to become true on a busy machine.
	patience = 2 * time.Minute
	// pollEvery is the interval between evaluations of a condition. Polling on every frame would
	// make the browser draw continuously.
	pollEvery = 50 * time.Millisecond
	// holdsTimeout limits one evaluation of a condition, which never returns if its document has
	// been unloaded.
	holdsTimeout = 20 * time.Second
)

// Browser is a Chromium process, started when a test first needs it. The zero value is ready to
// use.
type Browser struct {
	once sync.Once
	ctx  context.Context
	stop context.CancelFunc
	err  error
}

// Close stops the browser if it was started.
func (b *Browser) Close() {
	if b.stop != nil {
		_ = chromedp.Cancel(b.ctx) // waits for the process to exit
		b.stop()
	}
}

// Tests runs the tests of a package and then closes their browser. It is meant for
// goleak.VerifyTestMain.
type Tests struct {
	*testing.M
	Browser *Browser
}

// Run runs the tests, closes the browser, and returns the exit code.
func (t Tests) Run() int {
	defer t.Browser.Close()
	return t.M.Run()
}

func (b *Browser) start(chromium string) {
	ctx, stop := chromedp.NewExecAllocator(context.Background(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium), chromedp.NoSandbox, chromedp.WSURLReadTimeout(patience), chromedp.Flag("disable-dev-shm-usage", true))...)
	b.ctx, b.stop = chromedp.NewContext(ctx)
	allocated := b.stop
	b.stop = func() { allocated(); stop() }
	b.err = chromedp.Do(b.ctx, chromedp.Navigate("about:blank"))
}

// Open returns an empty tab of the given size in a new browser context, which is closed when the
// test ends. The test runs in parallel with others from here on, as pages mostly wait. It may open
// one browser context only.
func (b *Browser) Open(t *testing.T, width, height int64) Tab {
	t.Helper()
	chromium := peertest.Program(t, "chromium")
	t.Parallel()
	b.once.Do(func() { b.start(chromium) })
	if b.err != nil {
		t.Fatalf("Chromium does not start: %v", b.err)
	}
	ctx, cancel := chromedp.NewContext(b.ctx, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil { // opens a tab that stays open, so that any other tab can be closed
		t.Fatal(err)
	}
	p := Tab{T: t, all: ctx}.Another()
	p.Resize(width, height)
	return p
}

// Tab is a browser tab. If a method of Tab fails, it fails the test immediately.
type Tab struct {
	T     *testing.T
	Close context.CancelFunc

	ctx context.Context
	all context.Context // the browser context, which all its tabs share
}

// Another opens a tab in the same browser context.
func (p Tab) Another() Tab {
	p.T.Helper()
	ctx, cancel := chromedp.NewContext(p.all)
	p.T.Cleanup(cancel)
	return Tab{p.T, cancel, ctx, p.all}
}

// In returns the tab for use in a subtest.
func (p Tab) In(t *testing.T) Tab {
	p.T = t
	return p
}

func (p Tab) do(what string, steps ...chromedp.Action[chromedp.Void]) {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	if chromedp.FromContext(p.ctx).Target == nil { // the tab stays open as long as the context that opened it
		ctx = p.ctx
	}
	if err := chromedp.Do(ctx, steps...); err != nil {
		p.T.Fatalf("%s: %v", what, err)
	}
}

// Go navigates to an address.
func (p Tab) Go(address string) {
	p.T.Helper()
	p.do(address, chromedp.Navigate(address))
}

// Resize changes the size of the page, in CSS pixels.
func (p Tab) Resize(width, height int64) {
	p.T.Helper()
	p.do("resize", chromedp.EmulateViewport(width, height))
}

// Scheme sets the preferred colour scheme, "dark" or "light".
func (p Tab) Scheme(name string) {
	p.T.Helper()
	p.do(name, chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}},
		})
		return err
	}))
}

// Hurry makes the timers of two seconds or more of all later documents ten times faster.
func (p Tab) Hurry() {
	p.T.Helper()
	p.do("hurry", chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{
			Source: `for (const name of ['setTimeout', 'setInterval']) {
				const set = window[name];
				window[name] = (f, ms, ...more) => set(f, ms < 2000 ? ms : ms / 10, ...more);
			}`,
		})
		return err
	}))
}

// Axe returns the violations that axe-core finds on the page.
func (p Tab) Axe() string {
	p.T.Helper()
	script, err := os.ReadFile(peertest.Path(p.T, "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		p.T.Fatal(err)
	}
	if p.String(`typeof axe`) == "undefined" {
		p.Run(string(script))
	}
	return p.String(`axe.run().then((r) => r.violations.map((v) => v.impact + ' ' + v.id + ': ' + v.nodes.map((n) => n.html).slice(0, 3).join(' | ')).join('\n'))`)
}

// holds evaluates a JavaScript condition. It returns an error if the condition throws, or if the
// page is left during the evaluation.
func (p Tab) holds(ctx context.Context, condition string) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, holdsTimeout)
	defer cancel()
	return chromedp.Run(ctx, chromedp.Evaluate[bool]("Boolean("+condition+")"))
}

// Until waits until a JavaScript condition is true.
func (p Tab) Until(condition string) {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	holds, err := false, error(nil)
	for !holds && ctx.Err() == nil {
		// chromedp.Poll could wait forever for a document that was unloaded by a navigation.
		if holds, err = p.holds(ctx, condition); !holds {
			time.Sleep(pollEvery)
		}
	}
	if !holds {
		text, _ := chromedp.Run(p.ctx, chromedp.Evaluate[string]("location.href + ' ' + document.body.innerText"))
		p.T.Fatalf("%s: not true within %s (%v); the page is %.2000q", condition, patience, err, text)
	}
}

// Run executes JavaScript statements.
func (p Tab) Run(script string) {
	p.T.Helper()
	eval[bool](p, script+"; true")
}

// String returns the value of a JavaScript expression. It awaits a promise.
func (p Tab) String(expression string) string {
	p.T.Helper()
	return eval[string](p, expression)
}

// Number returns the value of a JavaScript expression. It awaits a promise.
func (p Tab) Number(expression string) float64 {
	p.T.Helper()
	return eval[float64](p, expression)
}

func eval[T any](p Tab, expression string) T {
	p.T.Helper()
	ctx, cancel := context.WithTimeout(p.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		p.T.Fatalf("%.300s: %v", expression, err)
	}
	return v
}

// Text returns the visible text of an element.
func (p Tab) Text(selector string) string {
	p.T.Helper()
	return p.String(fmt.Sprintf("document.querySelector(%q).innerText", selector))
}

// Click clicks an element with the mouse once it is visible. A page that replaces the element before
// it is clicked fails the test: a person's click would be lost too.
func (p Tab) Click(selector string) {
	p.T.Helper()
	p.do(selector, chromedp.Click(selector))
}

// Press presses the mouse over an element and returns a function that releases it.
func (p Tab) Press(selector string) (release func()) {
	p.T.Helper()
	center := func(axis, size string) float64 {
		return p.Number(fmt.Sprintf("(r => r.%s + r.%s / 2)(document.querySelector(%q).getBoundingClientRect())", axis, size, selector))
	}
	x, y := center("x", "width"), center("y", "height")
	button := []chromedp.MouseOption{chromedp.ButtonLeft, chromedp.ClickCount(1)}
	p.do(selector, chromedp.MouseEvent(chromedp.MouseMoved, x, y), chromedp.MouseEvent(chromedp.MousePressed, x, y, button...))
	return func() {
		p.T.Helper()
		p.do(selector, chromedp.MouseEvent(chromedp.MouseReleased, x, y, button...))
	}
}
