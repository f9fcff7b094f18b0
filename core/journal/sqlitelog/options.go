package sqlitelog

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/mcptrack/mcptrack/core/journal"
)

// Options say where the log is and how much of it is kept.
type Options struct {
	// Dir is the data directory, created with mode 0700 if necessary. Only one process at a time
	// can write to its log. Required.
	Dir string
	// Existing opens a log that exists only to read it, also while another process writes to it:
	// nothing is created or changed. If there is no log, the error of Open matches
	// [fs.ErrNotExist]. What would write returns an error.
	Existing bool
	// Durability says when an event counts as stored; [journal.Always].
	Durability journal.Durability
	// Retain is how long events are kept; 7 days.
	Retain time.Duration
	// RetainBytes bounds the size of the stored events; 1 GiB. The oldest are removed first.
	RetainBytes int64
	// KeepContent bounds the texts in Contents, in bytes; 0: no texts are kept, and those stored
	// earlier are removed.
	KeepContent int64
	// Queue is how many events may wait before newer ones replace older ones of the same server,
	// resource and type; 65,536.
	Queue int
	// Drain bounds how long Close waits for what is queued to be stored; 5 s.
	Drain time.Duration
	// Logger gets a line when storing fails, when it works again, and when damage is found; nil
	// discards.
	Logger *slog.Logger

	// check bounds PRAGMA quick_check when the file is opened; 150 ms. Tests in which the damage must
	// be found then set more, because a busy machine does not finish in time.
	check time.Duration
}

func (o Options) withDefaults() (Options, error) {
	o.Durability = cmp.Or(o.Durability, journal.Always)
	o.Retain = cmp.Or(o.Retain, 7*24*time.Hour)
	o.RetainBytes = cmp.Or(o.RetainBytes, 1<<30)
	o.Queue = cmp.Or(o.Queue, 1<<16)
	o.Drain = cmp.Or(o.Drain, 5*time.Second)
	o.check = cmp.Or(o.check, 150*time.Millisecond)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.Dir == "":
		return o, errors.New("event log: no data directory given")
	case o.Durability != journal.Always && o.Durability != journal.Interval && o.Durability != journal.OS:
		return o, fmt.Errorf("event log: unknown durability %q; choose always, interval or os", o.Durability)
	case o.Retain < 0 || o.RetainBytes < 0 || o.KeepContent < 0 || o.Queue < 0 || o.Drain < 0:
		return o, errors.New("event log: negative option")
	}
	return o, nil
}
