package commands

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/mcptrack/mcptrack/core/catalog"
	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/session"
	"github.com/mcptrack/mcptrack/output/document"
)

// requestFlags are of the commands that make one request of one server.
type requestFlags struct {
	connectFlags
	out string
}

func (r *requestFlags) add(cmd *cobra.Command) {
	r.connectFlags.add(cmd)
	cmd.Flags().StringVar(&r.out, "out", "", "write the content to `FILE` instead of to stdout")
	_ = cmd.MarkFlagFilename("out")
}

const requestExits = `Exit codes: 0 done; 1 failed; 2 wrong usage; 3 config invalid or missing; 4 the
server could not be reached; 5 the server refused or lacks what was asked;
6 --timeout ran out; 130 interrupted.`

// ask connects to one server of the config, makes a request and leaves. The
// request is cancelled at the server when ctx ends first.
func (r *requestFlags) ask(ctx context.Context, env *Env, g *globals, server string, request func(context.Context, *session.Session) error) error {
	cfg, err := g.load(env, g.logger(env))
	if err != nil {
		return err
	}
	servers, err := selectServers(cfg, []string{server})
	if err != nil {
		return err
	}
	opts := r.session(env, g)
	opts.OneShot = true
	dial := env.Dial
	if dial == nil {
		dial = session.Dial
	}
	s, err := dial(ctx, servers[0], opts)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return &failure{exit: exitUnreachable, code: "unreachable", err: fmt.Errorf("server %q: %w", server, err)}
	}
	defer func() { _ = s.Close() }()
	err = request(ctx, s)
	if _, ours := errors.AsType[*failure](err); err == nil || ours || ctx.Err() != nil {
		return err
	}
	f := &failure{exit: exitFailed, code: "failed", err: fmt.Errorf("server %q: %w", server, err)}
	_, answered := errors.AsType[*session.RPCError](err)
	_, input := errors.AsType[*session.InputRequiredError](err)
	switch {
	case errors.Is(err, session.ErrNotFound):
		f.exit, f.code = exitRefused, "not_found"
	case errors.Is(err, session.ErrUnsupported):
		f.exit, f.code = exitRefused, "unsupported"
	case answered, input:
		f.exit, f.code = exitRefused, "refused"
	}
	return f
}

// lacks is the failure for a server without a capability.
func lacks(server string, kind catalog.Kind) error {
	return &failure{exit: exitRefused, code: "unsupported", err: fmt.Errorf("server %q does not offer %s", server, kind)}
}

// piece is a part of what a server sent: text, or bytes of a type.
type piece struct {
	text   string
	binary []byte
	mime   string
}

// put writes the pieces: raw to a file or a pipe; to a terminal only text, made
// printable.
func (r *requestFlags) put(env *Env, pieces []piece) error {
	if r.out != "" {
		return writeFile(r.out, pieces)
	}
	terminal := env.OutTTY
	for _, p := range pieces {
		if p.binary != nil && terminal {
			return usageHint("write it to a file with --out FILE", "%d bytes of %s are not for a terminal", len(p.binary), printable.Line(p.mime, 100))
		}
	}
	for _, p := range pieces {
		text := p.text
		if terminal {
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

// writeFile puts the pieces in place as a whole: a failure leaves what was there.
func writeFile(path string, pieces []piece) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".mcptrack-*")
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	for _, p := range pieces {
		if _, werr := io.WriteString(tmp, p.text); err == nil {
			err = werr
		}
		if _, werr := tmp.Write(p.binary); err == nil {
			err = werr
		}
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	return nil
}

// documents reports whether the result itself is asked for, as a document.
func documents(f document.Format) bool { return !f.Table() && f.Name != "name" }

// pairs reads the values of a flag like --arg k=v.
func pairs(flag string, values []string) (map[string]string, error) {
	out := map[string]string{}
	for _, v := range values {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, usage("--%s %s: want NAME=VALUE", flag, printable.Line(v, 60))
		}
		if _, twice := out[name]; twice {
			return nil, usage("--%s %s is given twice", flag, printable.Line(name, 60))
		}
		out[name] = value
	}
	return out, nil
}
