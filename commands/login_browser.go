package commands

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/mcptrack/mcptrack/core/login"
	"github.com/mcptrack/mcptrack/core/printable"
)

// listen returns the redirect URI of a login, and opens its port: the one that the client
// was registered with, if it is free and no other is wanted. There is no port if the URI
// leads elsewhere and the redirected URL is pasted anyway.
func (o *loginOptions) listen(ctx context.Context, logins *login.Store, target login.Target) (redirect string, c *login.Callback, err error) {
	redirect = target.Redirect(o.port)
	if redirect == (login.Target{}).Redirect(0) { // any port may be used
		if earlier, err := logins.Get(target); err == nil && earlier.Client.Redirect != "" {
			if c, err := login.Listen(ctx, earlier.Client.Redirect); err == nil {
				return c.Redirect, c, nil
			}
		}
	}
	c, err = login.Listen(ctx, redirect)
	switch {
	case err == nil:
		return c.Redirect, c, nil
	case errors.Is(err, login.ErrElsewhere) && o.noBrowser:
		return redirect, nil, nil
	case errors.Is(err, login.ErrElsewhere):
		err = &failure{exit: exitFailed, code: "failed", err: err,
			hint: "register http://localhost:8123/callback for the client, too, and choose it with --port 8123; or paste the redirected URL with --no-browser"}
	default:
		err = &failure{exit: exitFailed, code: "failed", err: err, hint: "choose another port with --port"}
	}
	return "", nil, err
}

// open opens the browser, and prints the URL in case the browser does not open.
func (o *loginOptions) open(env *Env, flow *login.Flow) {
	if env.OpenBrowser != nil {
		if err := env.OpenBrowser(flow.URL); err == nil {
			fmt.Fprintf(env.Err, "log in to %s in your browser; if it does not open, go to\n%s\n", flow.Issuer(), printable.Line(flow.URL, 0))
			return
		}
	}
	fmt.Fprintf(env.Err, "to log in to %s, go to\n%s\n", flow.Issuer(), printable.Line(flow.URL, 0))
}

// askClient asks for the ID of a client.
func askClient(env *Env, redirect string) (string, error) {
	fmt.Fprintf(env.Err, "The authorization server does not support client registration. Register a client there, with the\nredirect URI %s, and enter its client ID: ", printable.Line(redirect, 200))
	id, err := readLine(env.In)
	if err != nil || id == "" {
		return "", login.ErrNoClient
	}
	return id, nil
}

// paste prints the URL and finishes with the redirected URL that comes on stdin, or with
// the browser if that is on this machine and there is a callback.
func (o *loginOptions) paste(ctx context.Context, env *Env, callback *login.Callback, flow *login.Flow, finish func(context.Context, url.Values) error) error {
	if _, err := fmt.Fprintln(env.Out, flow.URL); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	pasted := make(chan error, 1) // sent to once; never closed
	go func() {                   // reading cannot be interrupted: it ends with stdin, or with the process
		line, err := readLine(env.In)
		if err == nil {
			var answer url.Values
			if answer, err = redirected(line); err == nil {
				err = finish(ctx, answer)
			}
		}
		pasted <- err
		cancel(errPasted)
	}()
	var err error
	if callback != nil {
		err = callback.Serve(ctx, flow, finish, nil)
	} else {
		<-ctx.Done()
		err = context.Cause(ctx)
	}
	if errors.Is(err, errPasted) {
		return <-pasted
	}
	return err
}

var errPasted = errors.New("the redirected URL was pasted")

// redirected returns the query of a redirected URL.
func redirected(line string) (url.Values, error) {
	u, err := url.Parse(strings.TrimSpace(line))
	if err != nil || u.RawQuery == "" {
		return nil, usageHint("paste the URL in the address bar after you have logged in, even if the page shows an error", "the line on stdin is not the URL that the browser was redirected to")
	}
	return u.Query(), nil
}

// readLine reads one line of at most 64 KiB.
func readLine(in io.Reader) (string, error) {
	line, err := bufio.NewReader(io.LimitReader(in, 64<<10)).ReadString('\n')
	if line = strings.TrimSpace(line); line != "" {
		return line, nil
	}
	if err == nil || errors.Is(err, io.EOF) {
		return "", usage("stdin has no line with the redirected URL")
	}
	return "", err
}
