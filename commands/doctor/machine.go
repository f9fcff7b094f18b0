package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mcptrack/mcptrack/commands/internal/cli"
	"github.com/mcptrack/mcptrack/core/daemon/ipc"
	"github.com/mcptrack/mcptrack/core/printable"
)

// checkDaemon reports whether a daemon runs, and which version.
func (d *doctor) checkDaemon(ctx context.Context) []check {
	const kind = "daemon"
	client, err := d.env.DaemonClient()
	if err != nil {
		return []check{newCheck(kind, "", failed, printable.Reason(err, 300), "set MCPTRACK_SOCKET to the path of a socket")}
	}
	answer, err := client.Running(ctx)
	switch {
	case errors.Is(err, ipc.ErrNoDaemon):
		return []check{newCheck(kind, "", ok, "not running; mcptrack attach starts one when it is needed", "")}
	case err != nil:
		fix := "mcptrack daemon stop ends it; clients start another one"
		if hung, is := errors.AsType[*ipc.Hung](err); is && hung.PID > 0 {
			fix = fmt.Sprintf("%s %d ends it; clients start another one", ipc.KillCommand, hung.PID)
		}
		return []check{newCheck(kind, "", failed, printable.Reason(err, 300), fix)}
	}
	if answer.Build.Version != client.Build.Version {
		return []check{newCheck(kind, "", warning, fmt.Sprintf("running (pid %d) with version %s, while this is %s", answer.PID, printable.Line(answer.Build.Version, 60), client.Build.Version),
			"mcptrack daemon stop ends it; clients start this version")}
	}
	return []check{newCheck(kind, "", ok, fmt.Sprintf("running (pid %d), with this version", answer.PID), "")}
}

// checkData returns a check of the directory in which events are stored, and one of each log in it.
func (d *doctor) checkData(ctx context.Context) []check {
	dir := d.dataDir
	if dir == "" {
		dir = d.env.StateDir()
	}
	if dir == "" {
		return []check{newCheck("data", "", warning, "there is no home folder to store events in", "set HOME or XDG_STATE_HOME, or use --data-dir")}
	}
	checks := []check{checkDir(dir), d.checkLog(ctx, "", dir)}
	if d.dataDir == "" {
		checks = append(checks, d.checkLog(ctx, "daemon", d.env.DaemonDir()))
	}
	return checks
}

// checkDir checks whether files can be written to a directory, or to the one in which it would be created.
func checkDir(dir string) check {
	const kind = "data"
	existing := dir
	for {
		if _, err := os.Stat(existing); !errors.Is(err, fs.ErrNotExist) || filepath.Dir(existing) == existing {
			break
		}
		existing = filepath.Dir(existing)
	}
	f, err := os.CreateTemp(existing, ".mcptrack-doctor-*")
	if err == nil {
		_, err = f.WriteString("x") // fails if the disk is full
		err = errors.Join(err, f.Close(), os.Remove(f.Name()))
	}
	if err != nil {
		return newCheck(kind, "", failed, fmt.Sprintf("cannot write to %s: %s", existing, printable.Reason(printable.Unnamed(err), 200)), "make it writable for you, or use --data-dir")
	}
	detail := dir
	if existing != dir {
		detail += " (created when needed)"
	}
	return newCheck(kind, "", ok, detail+": writable", "")
}

// checkLog opens a log for reading, which verifies its format, and reads its newest event.
func (d *doctor) checkLog(ctx context.Context, what, dir string) check {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	const kind = "log"
	stored := cli.JournalFlags{Dir: dir}
	l, err := stored.Stored(ctx, d.env, d.log)
	if f, is := errors.AsType[*cli.Failure](err); is && f.Code == "nothing_stored" {
		return newCheck(kind, what, skipped, "no events are stored", "")
	}
	const fix = "keep a copy of the files; what writes the log (serve-sse, daemon) repairs it when it starts"
	if err != nil {
		return newCheck(kind, what, failed, printable.Reason(err, 400), fix)
	}
	defer func() { _ = l.Close() }()
	b, err := l.Bounds(ctx)
	if err == nil {
		for _, readErr := range l.Read(ctx, b.Last) {
			err = readErr
		}
	}
	if err != nil {
		return newCheck(kind, what, failed, printable.Reason(err, 400), fix)
	}
	return newCheck(kind, what, ok, fmt.Sprintf("%s, %s", cli.Plural(int(b.Last+1-b.First), "event"), printable.Size(int64(b.Bytes))), "")
}
