//go:build unix

package ipc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/mcptrack/mcptrack/core/backoff"
)

const (
	// maxPath is the longest path of a socket in bytes. It leaves space for the suffix of a second
	// socket, which a daemon uses while it takes over from another one.
	maxPath = len(syscall.RawSockaddrUnix{}.Path) - 1 - suffixRoom

	suffixRoom = 16
	othersMay  = 0o022 // permissions of others to change a folder
)

// Socket returns the path of the daemon's socket: MCPTRACK_SOCKET, or daemon-HOME.sock in a folder of
// the user's runtime directory, or else in a folder of the temporary directory. HOME stands for the user's
// folders; see home. Socket creates the folder. It returns an error if another user owns the folder or can change it.
func Socket(lookup func(string) (string, bool)) (string, error) {
	socket, _ := lookup(SocketKey)
	if socket != "" && !filepath.IsAbs(socket) {
		return "", fmt.Errorf("%s is not an absolute path: %q", SocketKey, socket)
	}
	if socket == "" {
		socket = filepath.Join(folder(lookup, runtimeFolder()), "daemon-"+home(lookup)+".sock")
	}
	socket = filepath.Clean(socket)
	if len(socket) > maxPath {
		return "", fmt.Errorf("the path of the daemon's socket has %d bytes, and at most %d are possible: %s; set %s to a shorter path",
			len(socket), maxPath, socket, SocketKey)
	}
	dir := filepath.Dir(socket)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", fmt.Errorf("cannot create the folder of the daemon's socket: %w; set %s to another path", err, SocketKey)
	}
	return socket, checkFolder(dir)
}

// runtimeFolder returns where Linux keeps the runtime directory of the user. Hosts often start their
// servers without XDG_RUNTIME_DIR, and these must find the same daemon.
func runtimeFolder() string {
	if runtime.GOOS == "linux" {
		return "/run/user/" + strconv.Itoa(os.Geteuid())
	}
	return ""
}

// folder returns the folder of the socket. A runtime directory of another user, as after su, is not
// used.
func folder(lookup func(string) (string, bool), standard string) string {
	named, _ := lookup("XDG_RUNTIME_DIR")
	for _, dir := range []string{named, standard} {
		if info, err := os.Stat(dir); err == nil && filepath.IsAbs(dir) && info.IsDir() && ours(info) {
			return filepath.Join(dir, "mcptrack")
		}
	}
	dir, _ := lookup("TMPDIR")
	if !filepath.IsAbs(dir) {
		dir = "/tmp"
	}
	return filepath.Join(dir, "mcptrack-"+strconv.Itoa(os.Geteuid()))
}

func ours(info os.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}

// checkFolder returns an error if another user owns or can change the folder of a socket.
func checkFolder(dir string) error {
	info, err := os.Lstat(dir)
	problem := ""
	switch {
	case err != nil:
		return fmt.Errorf("cannot check the folder of the daemon's socket: %w", err)
	case info.Mode()&os.ModeSymlink != 0:
		problem = "is a symbolic link"
	case !info.IsDir():
		problem = "is not a folder"
	case !ours(info):
		problem = "belongs to another user"
	case info.Mode().Perm()&othersMay != 0:
		problem = "can be changed by other users"
	default:
		return nil
	}
	return fmt.Errorf("the folder of the daemon's socket %s: %s; remove it, or set %s to a path in a folder of your own", problem, dir, SocketKey)
}

func lockFile(socket, kind string) string { return socket + "." + kind }

// Listen listens on a socket. The caller holds the lock of the socket, so that a socket that exists
// has no daemon. The socket has the mode 0600 from the beginning. Accept closes the connections of
// other users and does not return them; it returns an error only after Close.
func Listen(socket string) (net.Listener, error) {
	if info, err := os.Lstat(socket); err == nil && info.Mode()&os.ModeSocket == 0 {
		return nil, fmt.Errorf("%s is not a socket; remove it, or set %s to another path", socket, SocketKey)
	}
	// A socket gets its mode after it was created. Until then, it is in a folder that only the user
	// can access.
	private, err := os.MkdirTemp(filepath.Dir(socket), ".") // with its socket, at most suffixRoom longer
	if err != nil {
		return nil, fmt.Errorf("cannot listen for clients: %w", err)
	}
	defer func() { _ = os.RemoveAll(private) }()
	hidden := filepath.Join(private, "s")
	inner, err := net.ListenUnix("unix", &net.UnixAddr{Name: hidden, Net: "unix"})
	if err != nil {
		return nil, fmt.Errorf("cannot listen for clients: %w", err)
	}
	inner.SetUnlinkOnClose(false)
	l := &listener{UnixListener: inner, path: socket}
	err = os.Chmod(hidden, 0o600)
	if err == nil {
		l.file, err = os.Lstat(hidden)
	}
	if err == nil {
		err = os.Rename(hidden, socket)
	}
	if err != nil {
		_ = inner.Close()
		return nil, fmt.Errorf("cannot listen for clients: %w", err)
	}
	return l, nil
}

// listener accepts only connections of the user.
type listener struct {
	*net.UnixListener
	path string
	file os.FileInfo
	once sync.Once
}

func (l *listener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

func (l *listener) Accept() (net.Conn, error) {
	retry := backoff.New(5*time.Millisecond, time.Second)
	for {
		conn, err := l.AcceptUnix()
		switch {
		case err == nil:
			if checkPeer(conn) == nil {
				return conn, nil
			}
			_ = conn.Close()
		case errors.Is(err, net.ErrClosed):
			return nil, err
		default: // too many open files
			time.Sleep(retry.Next())
		}
	}
}

// Close also removes the socket, unless another daemon has replaced it.
func (l *listener) Close() error {
	l.once.Do(func() {
		if info, err := os.Lstat(l.path); err == nil && os.SameFile(info, l.file) {
			_ = os.Remove(l.path)
		}
	})
	return l.UnixListener.Close()
}

// dial connects to a socket. It checks that the daemon runs as the user before anything is sent.
func dial(ctx context.Context, socket string) (net.Conn, error) {
	info, err := os.Lstat(socket)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, ErrNoDaemon
	case err != nil:
		return nil, fmt.Errorf("cannot check the daemon's socket: %w", err)
	case info.Mode()&os.ModeSocket == 0:
		return nil, fmt.Errorf("%s is not a socket; remove it, or set %s to another path", socket, SocketKey)
	case !ours(info):
		return nil, fmt.Errorf("the daemon's socket belongs to another user: %s; remove it, or set %s to another path", socket, SocketKey)
	}
	var d net.Dialer
	retry := backoff.New(5*time.Millisecond, 100*time.Millisecond)
	for {
		conn, err := d.DialContext(ctx, "unix", socket)
		switch {
		case err == nil:
			if err := checkPeer(conn.(*net.UnixConn)); err != nil {
				_ = conn.Close()
				return nil, err
			}
			return conn, nil
		case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ENOENT):
			return nil, ErrNoDaemon
		case !errors.Is(err, syscall.EAGAIN): // EAGAIN: too many clients connect
			return nil, fmt.Errorf("cannot connect to the daemon: %w", err)
		case !backoff.Sleep(ctx, retry.Next()):
			return nil, context.Cause(ctx)
		}
	}
}

// checkPeer returns an error if the process at the other end runs as another user.
func checkPeer(conn *net.UnixConn) error {
	uid, err := peer(conn, peerUID)
	switch {
	case err != nil:
		return fmt.Errorf("cannot determine the user of a connection: %w", err)
	case uid != os.Geteuid():
		return fmt.Errorf("the process at the other end of the daemon's socket belongs to another user (%d)", uid)
	}
	return nil
}

// peer returns what get returns for the socket of a connection.
func peer(conn syscall.Conn, get func(fd int) (int, error)) (value int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlled := raw.Control(func(fd uintptr) { value, err = get(int(fd)) })
	return value, cmp.Or(controlled, err)
}

// serverPID returns the process id of the daemon at the other end, or 0 if it is unknown.
func serverPID(conn net.Conn) int {
	socket, ok := conn.(syscall.Conn)
	if !ok {
		return 0
	}
	pid, err := peer(socket, peerPID)
	if err != nil {
		return 0
	}
	return pid
}

// KillCommand is the command that ends a process.
const KillCommand = "kill -9"

// listeningSince returns when the daemon of a socket began to listen, or a zero time if it is unknown.
func listeningSince(socket string) time.Time {
	info, err := os.Lstat(socket)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}
