// Pictures opens a page in Chromium, waits until it shows a text, and saves it as FILE-light.png and
// FILE-dark.png. See scripts/pictures.sh.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"strconv"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

func main() {
	if len(os.Args) != 6 {
		log.Fatal("usage: pictures URL TEXT WIDTH HEIGHT FILE")
	}
	width, err := strconv.ParseInt(os.Args[3], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	height, err := strconv.ParseInt(os.Args[4], 10, 64)
	if err != nil {
		log.Fatal(err)
	}
	if err := photograph(os.Args[1], os.Args[2], width, height, os.Args[5]); err != nil {
		log.Fatal(err)
	}
}

func photograph(url, text string, width, height int64, file string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	browser, stop := chromedp.NewExecAllocator(ctx, append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox,
		chromedp.Flag("hide-scrollbars", true), chromedp.Flag("disable-dev-shm-usage", true))...)
	defer stop()
	tab, closeTab := chromedp.NewContext(browser)
	defer closeTab()
	if err := chromedp.Do(tab, chromedp.EmulateViewport(width, height, chromedp.EmulateScale(1.5)), chromedp.Navigate(url)); err != nil {
		return err
	}
	if _, err := chromedp.Run(tab, chromedp.PollFunction[bool](`text => document.body.innerText.includes(text)`, chromedp.WithPollingArgs(text))); err != nil {
		return fmt.Errorf("the page does not show %q: %w", text, err)
	}
	for _, scheme := range []string{"light", "dark"} {
		media := chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
				Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
			})
			return err
		})
		// Charts are drawn again for the new colours.
		if err := chromedp.Do(tab, media, chromedp.Sleep(time.Second)); err != nil {
			return err
		}
		picture, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
		if err != nil {
			return err
		}
		if err := os.WriteFile(file+"-"+scheme+".png", picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}
