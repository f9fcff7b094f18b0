package ipc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/Microsoft/go-winio"
	"golang.org/x/sys/windows"
)

const pipes = `\\.\pipe\`

// Socket returns the name of the daemon's pipe: MCPTRACK_SOCKET, or one that contains the SID of the
// user and stands for the user's folders; see home.
func Socket(lookup func(string) (string, bool)) (string, error) {
	if name, _ := lookup(SocketKey); name != "" {
		if !strings.HasPrefix(name, pipes) || len(name) > 200 || strings.Contains(name[len(pipes):], `\`) {
			return "", fmt.Errorf(`%s is not the name of a pipe; use %sNAME`, SocketKey, pipes)
		}
		return name, nil
	}
	sid, err := user()
	if err != nil {
		return "", err
	}
	return pipes + "mcptrack-" + sid + "-" + home(lookup), nil
}

// user returns the SID of the user.
func user() (string, error) {
	u, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		return "", fmt.Errorf("cannot determine the user: %w", err)
	}
	return u.User.Sid.String(), nil
}

// lockFile returns a file in the user's temporary folder, because a pipe has no folder.
func lockFile(socket, kind string) string {
	return filepath.Join(os.TempDir(), strings.TrimPrefix(socket, pipes)+"."+kind)
}

// Listen listens on a pipe. The caller holds its lock. Only the user can open the pipe.
func Listen(socket string) (net.Listener, error) {
	sid, err := user()
	if err != nil {
		return nil, err
	}
	// The first instance of a pipe determines who may open it: ListenPipe fails if there is one. A pipe
	// of messages is the only one whose sending side can be closed.
	l, err := winio.ListenPipe(socket, &winio.PipeConfig{SecurityDescriptor: "O:" + sid + "D:P(A;;GA;;;" + sid + ")", MessageMode: true,
		InputBufferSize: 64 << 10, OutputBufferSize: 64 << 10})
	if err != nil {
		return nil, fmt.Errorf("cannot listen for clients: %w", err)
	}
	return l, nil
}

// dial connects to a pipe. It checks that the user owns the pipe before anything is sent.
func dial(ctx context.Context, socket string) (net.Conn, error) {
	conn, err := winio.DialPipeContext(ctx, socket)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, ErrNoDaemon
	case err != nil:
		return nil, fmt.Errorf("cannot connect to the daemon: %w", err)
	}
	if err := checkOwner(conn); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

func checkOwner(conn net.Conn) error {
	sid, err := user()
	if err != nil {
		return err
	}
	file, ok := conn.(interface{ Fd() uintptr })
	if !ok {
		return errors.New("cannot determine the owner of the daemon's pipe")
	}
	sd, err := windows.GetSecurityInfo(windows.Handle(file.Fd()), windows.SE_KERNEL_OBJECT, windows.OWNER_SECURITY_INFORMATION)
	if err != nil {
		return fmt.Errorf("cannot determine the owner of the daemon's pipe: %w", err)
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return fmt.Errorf("cannot determine the owner of the daemon's pipe: %w", err)
	}
	if owner.String() != sid {
		return fmt.Errorf("the daemon's pipe belongs to another user; set %s to another name", SocketKey)
	}
	return nil
}

// serverPID returns the process id of the daemon at the other end, or 0 if it is unknown.
func serverPID(conn net.Conn) int {
	file, ok := conn.(interface{ Fd() uintptr })
	var pid uint32
	if !ok || windows.GetNamedPipeServerProcessId(windows.Handle(file.Fd()), &pid) != nil {
		return 0
	}
	return int(pid)
}

// KillCommand is the command that ends a process.
const KillCommand = "taskkill /F /PID"

// listeningSince returns a zero time, because a pipe does not tell.
func listeningSince(string) time.Time { return time.Time{} }

// detach lets a command outlive this process and its console.
func detach(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{HideWindow: true, CreationFlags: windows.DETACHED_PROCESS | windows.CREATE_NEW_PROCESS_GROUP}
}

func rootFolder(lookup func(string) (string, bool)) string {
	dir, _ := lookup("SYSTEMROOT")
	return dir
}

func keptBySystem() []string {
	return []string{"SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "COMSPEC", "PATHEXT", "TEMP", "TMP", "USERPROFILE", "USERNAME", "USERDOMAIN",
		"HOMEDRIVE", "HOMEPATH", "APPDATA", "LOCALAPPDATA", "PROGRAMDATA", "PROGRAMFILES", "PROGRAMFILES(X86)", "PROCESSOR_ARCHITECTURE"}
}

func isReset(err error) bool {
	return errors.Is(err, windows.ERROR_BROKEN_PIPE) || errors.Is(err, windows.ERROR_NO_DATA) || errors.Is(err, windows.ERROR_PIPE_NOT_CONNECTED)
}
