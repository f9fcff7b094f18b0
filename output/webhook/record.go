package webhook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/mcptrack/mcptrack/core/atomicfile"
	"github.com/mcptrack/mcptrack/core/events"
	"github.com/mcptrack/mcptrack/core/printable"
)

// record is a subscription as it is stored.
type record struct {
	ID        string          `json:"id"`
	Principal string          `json:"principal"`
	URL       string          `json:"url"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"` // canonical
	Secret    string          `json:"secret"`
	// OldSecret signs, too, until OldUntil.
	OldSecret string           `json:"oldSecret,omitempty"`
	OldUntil  time.Time        `json:"oldUntil,omitzero"`
	Numbering events.Numbering `json:"numbering"`
	Verified  time.Time        `json:"verified"`
	Expires   time.Time        `json:"expires,omitzero"` // zero: never
	// Cursor is the watermark: everything up to it was taken or given up.
	Cursor string `json:"cursor"`
	// Truncated says that events are missing of which no answer said so yet.
	Truncated bool `json:"truncated,omitempty"`
	// GapDue says that the next message has to say so.
	GapDue bool   `json:"gapDue,omitempty"`
	Status status `json:"status"`
}

// status is how the deliveries of a subscription go.
type status struct {
	Suspended    bool      `json:"suspended,omitempty"`
	LastDelivery time.Time `json:"lastDelivery,omitzero"`
	LastError    Error     `json:"lastError,omitempty"`
	FailedSince  time.Time `json:"failedSince,omitzero"`
}

// subscriptionID is the id of the subscription with a key. It is the same in every
// process, and grants nothing.
func subscriptionID(principal, url, name string, arguments []byte) string {
	h := sha256.New()
	for _, part := range []string{principal, url, name, string(arguments)} {
		fmt.Fprintf(h, "%d:%s,", len(part), part)
	}
	return "sub_" + hex.EncodeToString(h.Sum(nil)[:8])
}

// file is a file of this package: of subscriptions, or of watermarks.
type file struct {
	path string // "": nothing is stored
	what string // for people

	mu sync.Mutex // held while writing: what is saved later is newer
}

const (
	fileVersion = 1
	maxFile     = 64 << 20
)

type stored struct {
	Version       int      `json:"version"`
	Subscriptions []record `json:"subscriptions,omitempty"`
	Webhooks      []mark   `json:"webhooks,omitempty"`
}

// load returns what is stored, nothing if there is no file.
func (f *file) load() (s stored, err error) {
	if f.path == "" {
		return s, nil
	}
	info, err := os.Lstat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxFile) {
		err = errors.New("not a file of " + f.what)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(f.path)
	}
	if err != nil {
		return s, fmt.Errorf("read the %s: %w", f.what, err)
	}
	if json.Unmarshal(data, &s) != nil || s.Version != fileVersion {
		return s, fmt.Errorf("%s is damaged or of a newer version; remove it to begin anew", printable.Line(f.path, 200))
	}
	return s, nil
}

// save replaces the file with what snapshot returns, which is called when it is the
// turn of this save.
func (f *file) save(snapshot func() stored) error {
	if f.path == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	s := snapshot()
	s.Version = fileVersion
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return atomicfile.Write(f.path, 0o600, data)
}
