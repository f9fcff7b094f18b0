package doctor_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/login"
)

// A daemon of another version is a warning; one that refuses this program, or that hangs, is an error.
func TestDaemons(t *testing.T) {
	t.Parallel()
	refused := &ipc.Refused{Code: ipc.CodeProtocol, Message: "this program is older than the daemon and cannot use it", Hint: "upgrade it", Exit: 1}
	for name, c := range map[string]struct {
		answer              func(*ipc.Conn) error // nil: it never answers
		status, detail, fix string
	}{
		"another version": {(*ipc.Conn).OK, "warning", "with version 9.9.9, while this is ", "mcptrack daemon stop ends it"},
		"refuses":         {func(c *ipc.Conn) error { return c.Refuse(refused) }, "error", "older than the daemon", "mcptrack daemon stop ends it"},
		"hangs":           {nil, "error", "does not answer", fmt.Sprintf("%s %d ends it", ipc.KillCommand, os.Getpid())},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir, err := os.MkdirTemp("", "doctor") // the path of a socket is short
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = os.RemoveAll(dir) }()
			socket := filepath.Join(dir, "s")
			l, err := ipc.Listen(socket)
			if err != nil {
				t.Fatal(err)
			}
			hourAgo := time.Now().Add(-time.Hour) // it does not start any more
			if err := os.Chtimes(socket, hourAgo, hourAgo); err != nil {
				t.Fatal(err)
			}
			var serving sync.WaitGroup
			defer serving.Wait()
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			defer func() { _ = l.Close() }()
			serving.Go(func() {
				for {
					conn, err := l.Accept()
					if err != nil {
						return
					}
					serving.Go(func() {
						defer func() { _ = conn.Close() }()
						if c.answer == nil {
							<-ctx.Done()
						} else if served, err := ipc.Accept(ctx, conn, ipc.Build{Version: "9.9.9"}); err == nil {
							_ = c.answer(served)
						}
					})
				}
			})
			checks, _ := newBench(t, "MCPTRACK_SOCKET="+socket).checks("--offline")
			if got := checks["daemon"]; got.Status != c.status || !strings.Contains(got.Detail, c.detail) || !strings.HasPrefix(got.Fix, c.fix) {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A login in a keyring that cannot be read is an error of the login and of the keyring.
func TestUnreadableKeyring(t *testing.T) {
	b := newBench(t)
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path="+filepath.Join(b.home, "none"))
	const url = "http://127.0.0.1:1/mcp"
	path := login.NewStore(login.Options{Dir: filepath.Join(b.home, "config", "mcptrack", "logins")}).Path(login.Target{URL: url})
	b.write(strings.TrimPrefix(path, b.home), `{"version": 1, "logins": [{"server": "`+url+`", "id": "notes", "issuer": "https://as.invalid", "client": {"id": "c"}, "grant": "code", "store": "keyring"}]}`)
	checks, code := b.checks()
	if got := checks["login:notes"]; code != 1 || got.Status != "error" || got.Fix != "unlock the keyring, or log in again: mcptrack login notes" {
		t.Errorf("exit %d, %+v", code, got)
	}
	if got := checks["keyring"]; got.Status != "error" || got.Fix != "unlock the keyring" {
		t.Errorf("%+v", got)
	}
}
