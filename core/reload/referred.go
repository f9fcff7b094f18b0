package reload

import (
	"io/fs"
	"maps"
	"os"
	"slices"
	"time"
)

// checkInterval is how often the files that a config refers to are looked at. They are
// polled because they may lie anywhere, and few configs have any.
const checkInterval = time.Second

// stamp is the metadata by which a change of a file is noticed; zero if the file does not
// exist.
type stamp struct {
	modified time.Time
	size     int64
	mode     fs.FileMode
}

// referred holds the files that the config refers to, as the last check found them.
type referred struct {
	files   []string
	stamps  map[string]stamp // by file
	changed bool             // a file changed, and check has not reported it yet
	ticker  *time.Ticker     // nil: there are no files
}

// tick returns a channel that receives when check is due; nil: never.
func (r *referred) tick() <-chan time.Time {
	if r.ticker == nil {
		return nil
	}
	return r.ticker.C
}

// follow sets the files. If they are others than before, they count as changed: they may
// have changed since the config was read.
func (r *referred) follow(files []string) {
	if slices.Equal(files, r.files) {
		return
	}
	r.stop()
	r.files, r.stamps, r.changed = files, stamps(files), true
	if len(files) > 0 {
		r.ticker = time.NewTicker(checkInterval)
	}
}

// check looks at the files. It reports whether any of them changed and all have been the
// same for one interval since.
func (r *referred) check() bool {
	if now := stamps(r.files); !maps.Equal(now, r.stamps) {
		r.stamps, r.changed = now, true
		return false
	}
	settled := r.changed
	r.changed = false
	return settled
}

func (r *referred) stop() {
	if r.ticker != nil {
		r.ticker.Stop()
		r.ticker = nil
	}
}

func stamps(files []string) map[string]stamp {
	out := make(map[string]stamp, len(files))
	for _, file := range files {
		s := stamp{}
		if info, err := os.Stat(file); err == nil {
			s = stamp{info.ModTime(), info.Size(), info.Mode()}
		}
		out[file] = s
	}
	return out
}
