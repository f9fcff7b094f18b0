package commands

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/config"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/output/document"
)

// requestFlags contains the flags of commands that send one request to one server.
type requestFlags struct {
	cli.ConnectFlags
	daemon cli.DaemonUse
	out    string
}

func (r *requestFlags) add(cmd *cobra.Command) {
	r.ConnectFlags.Add(cmd)
	r.daemon.AddVerbose(cmd)
	cmd.Flags().StringVar(&r.out, "out", "", "write the content to `FILE` instead of stdout")
	_ = cmd.MarkFlagFilename("out")
}

// target identifies the server item to which a request refers.
type target struct {
	server string
	kind   catalog.Kind
	name   string
}

// ask connects to one server in the config, sends a request and disconnects. The function that
// request returns prints the result. If the command is interrupted or --timeout expires, the
// request is cancelled at the server.
func (r *requestFlags) ask(cmd *cobra.Command, env *cli.Env, g *cli.Globals, of target, request func(context.Context, *session.Session) (show func() error, err error)) error {
	if err := r.Parse(); err != nil {
		return err
	}
	if info, err := os.Stat(of.server); err == nil && info.Mode().IsRegular() && strings.ContainsAny(of.server, "./\\") {
		return cli.UsageHint("add the file with --config", "%s is a file; specify the server's name", printable.Line(of.server, 200))
	}
	ctx, cancel := r.Bound(cmd.Context())
	defer cancel()
	cmd.SetContext(ctx)
	cfg, err := g.Load(ctx, env, g.Logger(env))
	if err != nil {
		return err
	}
	servers, err := cli.SelectServers(cfg, []string{of.server})
	if err != nil {
		return err
	}
	// --timeout can also extend the request timeout in the config.
	servers[0].RequestTimeout = max(servers[0].RequestTimeout, r.Timeout)
	beside, report, stop := g.Waiting(env, "waiting for "+printable.Line(of.server, 60))
	defer stop()
	opts := r.SessionOptions(beside, g)
	opts.OneShot, opts.Logger = true, opts.Logger.With("server", printable.Line(of.server, 128))
	ctx = session.WithProgress(ctx, report)
	s, err := r.dialDaemon(ctx, env, g, servers[0], opts)
	if s == nil && err == nil {
		s, err = env.Dialer()(ctx, servers[0], opts)
	}
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return cli.Unreachable("", "%s: %w", printable.Line(of.server, 128), err)
	}
	defer func() { _ = s.Close() }()
	offered := s.Info().Capabilities
	if has := map[catalog.Kind]bool{catalog.Resources: offered.Resources, catalog.Prompts: offered.Prompts, catalog.Tools: offered.Tools}; !has[of.kind] {
		return &cli.Failure{Exit: cli.ExitRefused, Code: "unsupported", Err: fmt.Errorf("%s does not offer %s", printable.Line(of.server, 128), of.kind)}
	}
	show, err := request(ctx, s)
	stop()
	if err == nil {
		return of.suggest(ctx, env, g, cfg.Path, s, show())
	}
	if _, ours := errors.AsType[*cli.Failure](err); ours || ctx.Err() != nil {
		return err
	}
	f := &cli.Failure{Exit: cli.ExitFailed, Code: "failed", Err: fmt.Errorf("%s: %w", printable.Line(of.server, 128), err)}
	_, answered := errors.AsType[*session.RPCError](err)
	_, input := errors.AsType[*session.InputRequiredError](err)
	_, invalid := errors.AsType[*session.InvalidToolError](err)
	switch {
	case errors.Is(err, session.ErrNotFound):
		f.Exit, f.Code = cli.ExitRefused, "not_found"
	case errors.Is(err, session.ErrUnsupported):
		f.Exit, f.Code = cli.ExitRefused, "unsupported"
	case answered, input, invalid:
		f.Exit, f.Code = cli.ExitRefused, "refused"
	}
	return of.suggest(ctx, env, g, cfg.Path, s, f)
}

// dialDaemon opens a session with a server over a running daemon. It returns nil if the command must
// connect to the server itself.
func (r *requestFlags) dialDaemon(ctx context.Context, env *cli.Env, g *cli.Globals, srv config.Server, opts session.Options) (*session.Session, error) {
	use := r.daemon
	use.Own = r.Own()
	reports, ok := askDaemon(ctx, env, g, use, []config.Server{srv}, []catalog.Kind{noKind}) // wakes the server
	if !ok {
		return nil, nil
	}
	if err := reports[0].Err; err != nil {
		return nil, err
	}
	return g.DialDaemon(ctx, env, opts.Logger, srv, reports[0].Info.Era, opts)
}

// suggest replaces the error for a refused request if the server does not list the given name: it
// then says so, and suggests the name that was probably meant.
func (t target) suggest(ctx context.Context, env *cli.Env, g *cli.Globals, cfgPath string, s *session.Session, err error) error {
	f, ours := errors.AsType[*cli.Failure](err)
	if !ours || f.Exit != cli.ExitRefused || f.Hint != "" {
		return err
	}
	listed := loadNames(env, cfgPath)[t.server].Names[t.kind]
	if slices.Contains(listed, t.name) || f.Code == "unsupported" {
		return err
	}
	list, listErr := s.List(ctx, t.kind)
	if listErr == nil {
		listed = list.Keys()
	}
	if slices.Contains(listed, t.name) {
		return err
	}
	// A server may offer resources that it does not list, and say what is wrong with a URI.
	absent := f.Code == "not_found" && !strings.Contains(strings.ToLower(f.Err.Error()), "invalid")
	if listErr == nil && (t.kind != catalog.Resources || absent) {
		f.Err, f.Code = t.missing(), "not_found"
	}
	f.Hint = t.nearest(g, listed)
	return err
}

// missing returns the error for an item that the server does not have.
func (t target) missing() error {
	name := printable.Line(t.name, 300)
	if t.kind != catalog.Resources {
		name = fmt.Sprintf("%q", name)
	}
	return fmt.Errorf("%s has no %s %s", printable.Line(t.server, 128), strings.TrimSuffix(string(t.kind), "s"), name)
}

// nearest returns a hint that suggests the listed name that was probably meant: a similar one or, of
// resources, the one that begins most like the given URI.
func (t target) nearest(g *cli.Globals, listed []string) string {
	fallback := strings.Join(slices.Concat([]string{"mcptrack list"}, g.OfHost(), []string{string(t.kind), printable.Line(t.server, 60), "shows what the server offers"}), " ")
	if scheme := strings.Index(t.name, "://"); t.kind == catalog.Resources && scheme > 0 {
		best := scheme + len("://")
		for _, uri := range listed {
			same := 0
			for same < min(len(uri), len(t.name)) && uri[same] == t.name[same] {
				same++
			}
			if same > best {
				best, fallback = same, fmt.Sprintf("did you mean %s?", printable.Line(uri, 200))
			}
		}
	}
	return cli.DidYouMean(t.name, listed, fallback)
}

// printer returns a function that prints a result: as a whole document if the output format
// requires it, and otherwise as the pieces that split returns. If the result cannot be split, the
// server is at fault.
func (r *requestFlags) printer(env *cli.Env, g *cli.Globals, raw json.RawMessage, split func(json.RawMessage) ([]piece, error)) (func() error, error) {
	if documents(g.Format) {
		return func() error { return r.putDocument(env, g, raw) }, nil
	}
	pieces, err := split(raw)
	return func() error { return r.put(env, pieces) }, err
}

// putDocument writes the result as the server sent it, in the format of -o, to stdout or the file
// specified with --out.
func (r *requestFlags) putDocument(env *cli.Env, g *cli.Globals, raw json.RawMessage) error {
	fields := []string{"content", "structuredContent", "isError", "contents", "messages", "description", "_meta", "resultType", "ttlMs", "cacheScope"}
	if r.out == "" {
		return document.Write(env.Out, g.Format, raw, fields...)
	}
	var text strings.Builder
	if err := document.Write(&text, g.Format, raw, fields...); err != nil {
		return err
	}
	return writeFile(r.out, []piece{{text: text.String()}})
}

// piece is a part of a result: text, or bytes with a MIME type.
type piece struct {
	text   string
	binary []byte
	mime   string
}

// summary describes binary data for a terminal.
func (p piece) summary() string {
	return fmt.Sprintf("[%s, %d bytes, sha256:%x; --out FILE writes it to a file]", cmp.Or(printable.Line(p.mime, 100), "binary"), len(p.binary), sha256.Sum256(p.binary))
}

// put writes the pieces: unchanged to a file or a pipe, and to a terminal as printable text, with
// binary data summarized.
func (r *requestFlags) put(env *cli.Env, pieces []piece) error {
	if r.out != "" {
		return writeFile(r.out, pieces)
	}
	terminal := env.OutTTY
	for _, p := range pieces {
		text := p.text
		if terminal {
			if p.binary != nil {
				text, p.binary = p.summary(), nil
			}
			if text = printable.Lines(text); text != "" && !strings.HasSuffix(text, "\n") {
				text += "\n"
			}
		}
		if _, err := io.WriteString(env.Out, text); err != nil {
			return err
		}
		if _, err := env.Out.Write(p.binary); err != nil {
			return err
		}
	}
	return nil
}

// writeFile replaces a file atomically: after an error, the old file is unchanged. A device or a
// pipe, such as /dev/stdout, is written in place.
func writeFile(path string, pieces []piece) error {
	var data [][]byte
	for _, p := range pieces {
		data = append(data, []byte(p.text), p.binary)
	}
	write := func() error { return atomicfile.Write(path, 0o666, data...) }
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		write = func() error {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			if err == nil {
				_, err = f.Write(bytes.Join(data, nil))
				err = errors.Join(err, f.Close())
			}
			return err
		}
	}
	err := write()
	if err == nil {
		return nil
	}
	f := &cli.Failure{Exit: cli.ExitFailed, Code: "failed", Err: fmt.Errorf("cannot write the file of --out: %w", err)}
	if errors.Is(err, fs.ErrNotExist) {
		f.Hint = "create the folder " + printable.Line(filepath.Dir(path), 200) + " first"
	}
	return f
}

// documents reports whether the output format shows a result as one document.
func documents(f document.Format) bool { return !f.Table() && f.Name != "name" }

// block is one content block of a tool result or a prompt message (ContentBlock in the MCP schema).
type block struct {
	Type     string       `json:"type"`
	Text     string       `json:"text"`
	Data     string       `json:"data"`
	MimeType string       `json:"mimeType"`
	URI      string       `json:"uri"`
	Resource contentEntry `json:"resource"`
}

func (b block) piece() (piece, error) {
	switch b.Type {
	case "text":
		return piece{text: b.Text}, nil
	case "image", "audio":
		data, err := base64.StdEncoding.DecodeString(b.Data)
		if err != nil {
			return piece{}, fmt.Errorf("malformed %s: %w", b.Type, err)
		}
		return piece{binary: data, mime: b.MimeType}, nil
	case "resource":
		return b.Resource.piece()
	case "resource_link":
		return piece{text: b.URI}, nil
	}
	return piece{}, fmt.Errorf("unknown content type %q; use --json to see it", printable.Line(b.Type, 40))
}

// appendTo appends the block to pieces. Text always ends in a newline.
func (b block) appendTo(pieces []piece) ([]piece, error) {
	p, err := b.piece()
	if err != nil {
		return nil, err
	}
	if p.binary == nil && !strings.HasSuffix(p.text, "\n") {
		p.text += "\n"
	}
	return append(pieces, p), nil
}

// contentEntry is one content entry of a resource, read directly or embedded in a message.
type contentEntry struct {
	Text     *string `json:"text"`
	Blob     string  `json:"blob"`
	MimeType string  `json:"mimeType"`
}

func (c contentEntry) piece() (piece, error) {
	if c.Text != nil {
		return piece{text: *c.Text, mime: c.MimeType}, nil
	}
	data, err := base64.StdEncoding.DecodeString(c.Blob)
	if err != nil {
		return piece{}, fmt.Errorf("malformed result: blob: %w", err)
	}
	return piece{binary: data, mime: c.MimeType}, nil
}
