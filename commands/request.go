package commands

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
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

// ask connects to one server of the config, makes a request and leaves; what the
// request returns prints the answer. The request is cancelled at the server when ctx
// ends first.
func (r *requestFlags) ask(ctx context.Context, env *Env, g *globals, server string, request func(context.Context, *session.Session) (show func() error, err error)) error {
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
	// Who sets --timeout says how long is too long.
	servers[0].RequestTimeout = max(servers[0].RequestTimeout, r.timeout)
	report, stop := g.waiting(env, "waiting for "+printable.Line(server, 60))
	defer stop()
	ctx = session.WithProgress(ctx, report)
	s, err := dial(ctx, servers[0], opts)
	if err != nil {
		if ctx.Err() != nil {
			return err
		}
		return &failure{exit: exitUnreachable, code: "unreachable", err: fmt.Errorf("server %q: %w", server, err)}
	}
	defer func() { _ = s.Close() }()
	show, err := request(ctx, s)
	stop()
	if err == nil {
		rememberUse(env, cfg.Path, servers[0])
		return show()
	}
	if _, ours := errors.AsType[*failure](err); ours || ctx.Err() != nil {
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

// shower prints a result: as a document if one is asked for, else the pieces that it
// is taken apart into. A result that cannot be taken apart is the server's failure.
func (r *requestFlags) shower(env *Env, g *globals, raw json.RawMessage, apart func(json.RawMessage) ([]piece, error)) (func() error, error) {
	if documents(g.format) {
		return func() error { return r.putDocument(env, g, raw) }, nil
	}
	pieces, err := apart(raw)
	return func() error { return r.put(env, pieces) }, err
}

// putDocument writes the result itself, in the format that was asked for.
func (r *requestFlags) putDocument(env *Env, g *globals, raw json.RawMessage) error {
	if r.out == "" {
		return document.Write(env.Out, g.format, raw)
	}
	var text strings.Builder
	if err := document.Write(&text, g.format, raw); err != nil {
		return err
	}
	return writeFile(r.out, []piece{{text: text.String()}})
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

// summary says what the bytes are, for where they cannot be shown.
func (p piece) summary() string {
	return fmt.Sprintf("[%s, %d bytes, sha256:%x; --out FILE writes it to a file]", cmp.Or(printable.Line(p.mime, 100), "binary"), len(p.binary), sha256.Sum256(p.binary))
}

// put writes the pieces: raw to a file or a pipe; to a terminal only text, made
// printable, and what the rest is.
func (r *requestFlags) put(env *Env, pieces []piece) error {
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

// writeFile puts the pieces in place as a whole: a failure leaves what was there.
// A device or a pipe, /dev/stdout say, is written to and stays what it is.
func writeFile(path string, pieces []piece) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return writeDevice(path, pieces)
	}
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real // what a link leads to is replaced, not the link
	}
	tmp, err := os.OpenFile(filepath.Join(filepath.Dir(path), ".mcptrack-"+rand.Text()), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		if e, ok := errors.AsType[*fs.PathError](err); ok {
			err = fmt.Errorf("%s: %w", printable.Line(path, 200), e.Err) // not the name of ours
		}
		return fmt.Errorf("--out: %w", err)
	}
	defer func() { _ = os.Remove(tmp.Name()) }()
	if info, err := os.Stat(path); err == nil {
		_ = tmp.Chmod(info.Mode().Perm()) // else it has the usual one
	}
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

func writeDevice(path string, pieces []piece) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return fmt.Errorf("--out: %w", err)
	}
	for _, p := range pieces {
		if _, err = f.Write(append([]byte(p.text), p.binary...)); err != nil {
			break
		}
	}
	if err = errors.Join(err, f.Close()); err != nil {
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
