package natslog

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/mcptrack/mcptrack/core/printable"
)

// Options say where the log is and how much of it is kept.
type Options struct {
	// URL is the NATS server or cluster, such as "nats://a:4222,nats://b:4222". It may hold
	// credentials and does not appear in errors or logs. Required.
	URL string
	// Credentials is a file with NATS user credentials for URL; optional.
	Credentials string
	// Existing opens only a log that exists, for reading: nothing is created, and the retention
	// is not changed. If there is no log, the error of Open matches [fs.ErrNotExist].
	Existing bool
	// Retain is how long events are kept; 7 days.
	Retain time.Duration
	// RetainBytes bounds the stored size; 1 GiB. The oldest events are removed first.
	RetainBytes int64
	// KeepContent bounds the compressed size, in bytes, of the texts in [Log.Contents]; 0: this
	// process stores none. Texts that other processes store can be read.
	KeepContent int64
	// Stream names the log: letters, digits, _ and -; "mcptrack".
	Stream string
	// Replicas is the number of cluster nodes that store the log, when it is created; 0: 3, or
	// 1 if the server is not part of a cluster.
	Replicas int
	// Process is the name of this process, shown to people by other processes that share the
	// log; host:pid.
	Process string
	// Queue is how many events may wait before newer ones replace older ones of the same server,
	// resource and type; 65,536.
	Queue int
	// Drain bounds how long Close waits for what is queued to be stored; 5 s.
	Drain time.Duration
	// Logger gets a line when storing fails, when it works again, and when damage is found; nil
	// discards.
	Logger *slog.Logger
}

func (o Options) withDefaults() (Options, error) {
	o.Retain = cmp.Or(o.Retain, 7*24*time.Hour)
	o.RetainBytes = cmp.Or(o.RetainBytes, 1<<30)
	o.Stream = cmp.Or(o.Stream, "mcptrack")
	o.Process = printable.Line(cmp.Or(o.Process, processName()), 128)
	o.Queue = cmp.Or(o.Queue, 1<<16)
	o.Drain = cmp.Or(o.Drain, 5*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	switch {
	case o.URL == "":
		return o, errors.New("event log: no NATS URL given")
	case !isStreamName(o.Stream):
		return o, fmt.Errorf("event log: invalid stream name %q; expected at most 64 letters, digits, _ and -", o.Stream)
	case o.Retain < 0 || o.RetainBytes < 0 || o.KeepContent < 0 || o.Queue < 0 || o.Replicas < 0 || o.Drain < 0:
		return o, errors.New("event log: negative option")
	}
	return o, nil
}

func isStreamName(s string) bool {
	return s != "" && len(s) <= 64 && !strings.ContainsFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	})
}

func processName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "localhost"
	}
	return fmt.Sprintf("%s:%d", host, os.Getpid())
}
