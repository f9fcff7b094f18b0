package reload

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/event"
)

// A bad entry in the file of a host changes only its own server; an error outside the entries still refuses the file.
func TestBadEntryOfAHost(t *testing.T) {
	const good = `"a":{"command":"go"}`
	dir := filepath.Join(private(t), ".cursor")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "mcp.json")
	save := func(b *bench, text string) {
		b.path = path
		b.save(text)
	}
	save(&bench{T: t}, `{"mcpServers":{`+good+`,"b":{"command":"go"}}}`)
	b := run(t, "", func(o *Options) {
		o.Path = path
		current, problems := config.Load(path, o.Config)
		if current == nil {
			t.Fatal(problems)
		}
		o.Current = current
	})
	save(b, `{"mcpServers":{`+good+`,"b":{"command":5}}}`)
	b.reloaded("[] [] [b]")
	cfg := <-b.applied
	if srv, _ := cfg.Server("b"); srv.Unconfigured() == nil {
		t.Errorf("%+v", srv)
	}
	save(b, `{"mcpServers":5}`)
	if p, ok := b.next().(event.ConfigRejected); !ok {
		t.Errorf("%T", p)
	}
	save(b, `{"mcpServers":{`+good+`,"b":{"command":"gofmt"}}}`)
	b.reloaded("[] [] [b]")
}
