package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
)

// A page is an open tab of the browser.
type page struct{ tab context.Context }

// scale is the number of pixels of a picture for one pixel of the page.
const scale = 1.5

// poll calls a function of the page with a text until what it returns is true.
func poll[T any](p page, function, text string) (T, error) {
	return chromedp.Run(p.tab, chromedp.PollFunction[T](function, chromedp.WithPollingArgs(text),
		chromedp.WithPollingInterval(100*time.Millisecond), chromedp.WithPollingTimeout(20*time.Second)))
}

func (p page) size(width, height int64) error {
	return chromedp.Do(p.tab, chromedp.EmulateViewport(width, height, chromedp.EmulateScale(scale)))
}

func (p page) open(url string, width, height int64) error {
	if err := p.size(width, height); err != nil {
		return err
	}
	if err := chromedp.Do(p.tab, chromedp.Navigate(url)); err != nil {
		return fmt.Errorf("%s: %w", url, err)
	}
	return nil
}

// await waits until the page shows a text.
func (p page) await(text string) error {
	if _, err := poll[bool](p, `text => document.body.innerText.includes(text)`, text); err != nil {
		return fmt.Errorf("the page does not show %q: %w", text, err)
	}
	return nil
}

// click clicks what people would: of the elements of some kinds with a text, the one with the least
// other text. It reports whether there is one.
func (p page) click(text, kinds string) (bool, error) {
	at, err := chromedp.Run(p.tab, chromedp.Evaluate[[]float64](fmt.Sprintf(`(() => {
		const found = [...document.querySelectorAll(%q)]
			.filter((e) => e.checkVisibility() && e.textContent.includes(%q))
			.sort((a, b) => a.textContent.length - b.textContent.length)[0];
		if (!found) return null;
		found.scrollIntoView({ block: "nearest" });
		const box = found.getBoundingClientRect();
		return [box.x + Math.min(box.width / 2, 60), box.y + Math.min(box.height / 2, 12)];
	})()`, kinds, text)))
	if err != nil || len(at) != 2 {
		return false, err
	}
	// Lists do not move while the mouse is over them.
	return true, chromedp.Do(p.tab, chromedp.MouseClickXY(at[0], at[1]), chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, 600, 4), chromedp.Sleep(time.Second))
}

// openResource opens a resource of a server: its item in the tree, or first the server's.
func (p page) openResource(server, resource string) error {
	for _, text := range []string{resource, server, resource} {
		if done, err := p.click(text, "[role=treeitem]"); err != nil || done && text == resource {
			return err
		}
	}
	return fmt.Errorf("the page has no item %q", resource)
}

// photograph saves the page as FILE-light.png and FILE-dark.png.
func (p page) photograph(file string) error {
	for _, scheme := range []string{"light", "dark"} {
		feature := &emulation.MediaFeature{Name: "prefers-color-scheme", Value: scheme}
		media := chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{feature}})
			return err
		})
		// Charts are drawn again for the new colours.
		if err := chromedp.Do(p.tab, media, chromedp.Sleep(time.Second)); err != nil {
			return err
		}
		picture, err := chromedp.Run(p.tab, chromedp.CaptureScreenshot())
		if err != nil {
			return err
		}
		if picture, err = shrink(picture); err != nil {
			return err
		}
		if err := os.WriteFile(file+"-"+scheme+".png", picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// shrink encodes a PNG with the 256 most frequent of its colours, the others being replaced by the
// nearest. Screenshots have few, so nothing of it can be seen.
func shrink(picture []byte) ([]byte, error) {
	from, err := png.Decode(bytes.NewReader(picture))
	if err != nil {
		return nil, err
	}
	count := map[color.RGBA]int{}
	bounds := from.Bounds()
	at := func(x, y int) color.RGBA { return color.RGBAModel.Convert(from.At(x, y)).(color.RGBA) }
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[at(x, y)]++
		}
	}
	frequent := slices.SortedFunc(maps.Keys(count), func(a, b color.RGBA) int { return cmp.Compare(count[b], count[a]) })
	var palette color.Palette
	for _, c := range frequent[:min(len(frequent), 256)] {
		palette = append(palette, c)
	}
	index := map[color.RGBA]uint8{}
	for c := range count {
		index[c] = uint8(palette.Index(c))
	}
	to := image.NewPaletted(bounds, palette)
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			to.SetColorIndex(x, y, index[at(x, y)])
		}
	}
	var b bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	err = encoder.Encode(&b, to)
	return b.Bytes(), err
}
