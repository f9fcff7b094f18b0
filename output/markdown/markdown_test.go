package markdown

import (
	"strings"
	"testing"
)

const source = `# The title

A paragraph with ` + "`code --flag`" + `, **bold** words and a [link](https://example.com/x) that goes on
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
goes on over two lines.

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
	if !strings.Contains(styled, cyan+"trackResources"+reset+"  a meaning") || !strings.Contains(styled, bold+"bold"+reset) {
		t.Errorf("no styles, or they move columns:\n%q", styled)
	}
	for _, style := range []string{bold, cyan, reset} {
		styled = strings.ReplaceAll(styled, style, "")
	}
	if styled != want {
		t.Errorf("styles change the text:\n%s", styled)
	}
}
