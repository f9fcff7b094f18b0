package sqlitelog

import (
	"sync"

	"github.com/mcptrack/mcptrack/core/event"
	"github.com/mcptrack/mcptrack/core/journal"
)

// view is what readers of this process may see. Its methods may be called from several goroutines.
type view struct {
	mu          sync.Mutex // guards all below; held for no I/O
	file        *file
	first, last uint64
	bytes       uint64
	recent      recent
	moved       chan struct{} // closed and replaced at every change
}

// recent holds the newest entries, so that who follows does not read the file.
type recent struct {
	entries []kept // without a hole up to the last of the view; empty in a process that only reads
	bytes   int
}

// kept is an entry in memory.
type kept struct {
	journal.Entry
	size int // see sizeOf
}

// recentEntries and recentBytes bound the newest entries in memory.
const recentEntries, recentBytes = 4096, 4 << 20

// now returns the file and the ends of the log.
func (v *view) now() (f *file, first, last, bytes uint64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.file, v.first, v.last, v.bytes
}

// replace makes another file, or another epoch, the log.
func (v *view) replace(f *file, row logRow) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.file, v.recent = f, recent{}
	v.moveLocked(row)
}

// show lets readers see what was stored.
func (v *view) show(row logRow, added []kept) {
	v.mu.Lock()
	defer v.mu.Unlock()
	r := &v.recent
	for i := range added {
		r.bytes += added[i].size
	}
	r.entries = append(r.entries, added...)
	n := 0
	for ; len(r.entries)-n > recentEntries || n < len(r.entries) && r.entries[n].Seq < uint64(row.first) || r.bytes > recentBytes && n < len(r.entries); n++ {
		r.bytes -= r.entries[n].size
	}
	clear(r.entries[:n])
	r.entries = r.entries[n:]
	v.moveLocked(row)
}

func (v *view) moveLocked(row logRow) {
	v.first, v.last, v.bytes = uint64(row.first), uint64(row.last), uint64(row.bytes)
	if v.moved != nil {
		close(v.moved)
	}
	v.moved = make(chan struct{})
}

// take appends entries from number next on to into, as far as they are in memory, but not beyond
// to unless that is 0, and returns which are in the log. moved is closed when that changes. ok is
// false if f is no longer the file of the log.
func (v *view) take(f *file, next, to uint64, into []journal.Entry) (_ []journal.Entry, first, last uint64, moved chan struct{}, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if f != v.file {
		return into, 0, 0, v.moved, false
	}
	if to == 0 || to > v.last {
		to = v.last
	}
	if begin := v.last + 1 - uint64(len(v.recent.entries)); next >= begin && next <= to {
		from := int(next - begin)
		for _, k := range v.recent.entries[from:min(from+cap(into)-len(into), int(to+1-begin))] {
			into = append(into, k.Entry)
		}
	}
	return into, v.first, v.last, v.moved, true
}

// sizeOf is about the memory that an entry takes.
func sizeOf(data []byte, ev *event.Event) int {
	n := 256 + len(data)
	if u, ok := ev.Payload.(event.ResourceUpdated); ok {
		for _, t := range []*string{u.Text, u.PreviousText, u.Content, u.Diff} {
			if t != nil {
				n += len(*t)
			}
		}
	}
	return n
}
