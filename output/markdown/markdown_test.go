package markdown

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mcptrack/mcptrack/output/termtext"
)

const source = `# The title

A paragraph with ` + "`code --flag`" + `, **bold** words and a [link](https://example.com/x) that continues
over two lines.

- first
- second, which is so long that it has to be wrapped at forty columns

1. one

   ` + "```sh\n   mcptrack watch   --demo\n   ```" + `

| key | meaning |
|---|---|
| ` + "`a\\|b`" + ` | short |
| ` + "`trackResources`" + ` | a meaning that is long enough to be wrapped |

| | |
|---|---|
| x | y |
`

const want = `THE TITLE

A paragraph with code --flag, bold words
and a link (https://example.com/x) that
continues over two lines.

- first
- second, which is so long that it has
  to be wrapped at forty columns

1. one

     mcptrack watch   --demo

  key             meaning
  a|b             short
  trackResources  a meaning that is long
                  enough to be wrapped

  x  y
`

func TestRender(t *testing.T) {
	t.Parallel()
	if got := Render([]byte(source), Options{Width: 40}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	styled := Render([]byte(source), Options{Width: 40, Styles: true})
	if !strings.Contains(styled, termtext.Cyan.Paint("trackResources")+"  a meaning") || !strings.Contains(styled, termtext.Bold.Paint("bold")) {
		t.Errorf("no styles, or they move columns:\n%q", styled)
	}
	styled = regexp.MustCompile("\x1b\\[[0-9;]*m").ReplaceAllString(styled, "")
	if styled != want {
		t.Errorf("styles change the text:\n%s", styled)
	}
}
