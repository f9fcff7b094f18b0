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

// file stores the records.
type file struct {
	path string // "": nothing is stored

	mu sync.Mutex // held while writing: what is saved later is newer
}

const (
	fileVersion = 1
	maxFile     = 64 << 20
)

type stored struct {
	Version       int      `json:"version"`
	Subscriptions []record `json:"subscriptions"`
}

// load returns the records, none if there is no file.
func (f *file) load() ([]record, error) {
	if f.path == "" {
		return nil, nil
	}
	info, err := os.Lstat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxFile) {
		err = errors.New("not a file of subscriptions")
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(f.path)
	}
	if err != nil {
		return nil, fmt.Errorf("read the subscriptions of webhooks: %w", err)
	}
	var s stored
	if json.Unmarshal(data, &s) != nil || s.Version != fileVersion {
		return nil, fmt.Errorf("%s is damaged or of a newer version; remove it, and clients subscribe again", printable.Line(f.path, 200))
	}
	return s.Subscriptions, nil
}

// save replaces the file with what snapshot returns, which is called when it is the
// turn of this save.
func (f *file) save(snapshot func() []record) error {
	if f.path == "" {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	data, err := json.Marshal(stored{fileVersion, snapshot()})
	if err != nil {
		return err
	}
	return atomicfile.Write(f.path, 0o600, data)
}
