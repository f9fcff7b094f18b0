package filewatch

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mcptrack/mcptrack/core/peertest"
)

// inNamespace names the variable that informs the test binary that it was started
// by itself, inside namespaces of its own.
const inNamespace = "FILEWATCH_TEST_IN_NAMESPACE"

// isolate runs the calling test again in a child with its own user and mount
// namespace, after a shell script that may limit it there. It returns true in the
// child. In the parent it reports the child's result and returns false.
func isolate(t *testing.T, script string) bool {
	t.Helper()
	if os.Getenv(inNamespace) != "" {
		return true
	}
	program := peertest.Program(t, "unshare")
	unshare := []string{"-Urm", "sh", "-ec", script + "\nexec \"$0\" \"$@\""}
	probe := exec.Command(program, append(unshare, "true")...)
	probe.Dir = t.TempDir()
	if out, err := probe.CombinedOutput(); err != nil {
		t.Skipf("cannot make such a namespace here: %v: %s", err, out)
	}
	self, err := os.Executable()
	must(t, err)
	child := exec.Command(program, append(unshare, self, "-test.run=^"+t.Name()+"$", "-test.v")...)
	child.Dir = t.TempDir()
	child.Env = append(os.Environ(), inNamespace+"=1")
	out, err := child.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("in the namespace: %v\n%s", err, out)
	}
	return false
}

// followsByPolls checks a File whose events do not work: two changes, each found.
func followsByPolls(t *testing.T, reason string, notify func() (*notifier, error)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "c.json")
	put(t, path, "first")
	var log logged
	f := start(t, path, FileOptions{PollOnly: 300 * time.Millisecond, Logger: log.logger(), notify: notify})
	wantContent(t, f, "first")
	log.want(t, 1, reason)
	put(t, path, "second")
	wantContent(t, f, "second")
	put(t, path, "third")
	wantContent(t, f, "third")
}

func TestRealNoInotifyInstances(t *testing.T) {
	t.Parallel()
	if isolate(t, "echo 0 > /proc/sys/user/max_inotify_instances") {
		followsByPolls(t, syscall.EMFILE.Error(), newNotifier)
	}
}

func TestRealNoInotifyWatches(t *testing.T) {
	t.Parallel()
	if isolate(t, "echo 1 > /proc/sys/user/max_inotify_watches") {
		followsByPolls(t, syscall.ENOSPC.Error(), patientNotifier)
	}
}

// TestRealOverlay changes a file below an overlay, which gives no event in it.
func TestRealOverlay(t *testing.T) {
	t.Parallel()
	const script = `mkdir x; mount -t tmpfs none x; cd x; mkdir l u w m; echo first > l/c.json; mount -t overlay none -o lowerdir=l,upperdir=u,workdir=w m`
	if !isolate(t, script) {
		return
	}
	path, err := filepath.Abs("m/c.json")
	must(t, err)
	var log logged
	f := start(t, path, FileOptions{PollOnly: 300 * time.Millisecond, Logger: log.logger()})
	wantContent(t, f, "first\n")
	log.want(t, 1, "overlay")
	put(t, "l/c.json", "lower")
	wantContent(t, f, "lower")
	put(t, path, "upper")
	wantContent(t, f, "upper")
}

func TestSilentKind(t *testing.T) {
	for magic, want := range map[uint32]string{
		unix.NFS_SUPER_MAGIC: "nfs", unix.SMB2_SUPER_MAGIC: "cifs", unix.CIFS_SUPER_MAGIC: "cifs",
		unix.FUSE_SUPER_MAGIC: "fuse", unix.V9FS_MAGIC: "9p", unix.OVERLAYFS_SUPER_MAGIC: "overlay",
		unix.EXT4_SUPER_MAGIC: "", unix.BTRFS_SUPER_MAGIC: "", unix.TMPFS_MAGIC: "", unix.XFS_SUPER_MAGIC: "",
	} {
		if got := silentKind(magic); got != want {
			t.Errorf("silentKind(%#x) = %q, want %q", magic, got, want)
		}
	}
}

// TestUnreadableAncestor: a directory that may be passed but not watched (as
// /home often is) neither turns events off nor delays anything.
func TestUnreadableAncestor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "passage", "conf", "c.json")
	put(t, path, "first")
	var log logged
	opts := onlyEvents()
	opts.Logger = log.logger()
	opts.notify = func() (*notifier, error) {
		n, err := patientNotifier()
		if err != nil {
			return nil, err
		}
		add := n.add
		n.add = func(d string) error {
			if filepath.Base(d) == "passage" {
				return errors.Join(errors.New("add"), syscall.EACCES)
			}
			return add(d)
		}
		return n, nil
	}
	f := start(t, path, opts)
	wantContent(t, f, "first")
	if silentFS(dir) == "" {
		log.want(t, 0, "")
	}
	put(t, path, "second")
	wantContent(t, f, "second")
}
