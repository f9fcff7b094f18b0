package journal

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// A record in a file of the store begins with its length (32 bits), its sequence
// number (64), its time (64) and the length of its subject (16), little-endian.
// The highest bit of the length says that there are headers, the two highest of
// the number that the record was removed. See nats-server, server/filestore.go.
const (
	recordHeader  = 22
	headersBit    = 1 << 31
	tombstoneBit  = 1 << 63
	erasedBit     = 1 << 62
	largestHole   = 1 << 24
	indexFileName = "index.db"
)

// checkSequences removes the store's index if a sequence number jumps, so that the store reads
// all records. With an index it counts up to such a number, which for one flipped byte takes
// years and all memory (nats-server 2.15, indexCacheBuf). Without one it checks the hash of
// every record when it starts, and ends the log before the first wrong one. Other damage costs
// only the damaged record, so the index is then kept.
func (d *dir) checkSequences() error {
	streams, err := filepath.Glob(filepath.Join(d.store(), "jetstream", "*", "streams", "*", "msgs"))
	if err != nil {
		return fmt.Errorf("journal: inspect the store: %w", err)
	}
	for _, stream := range streams {
		files, _ := filepath.Glob(filepath.Join(stream, "*.blk")) // the pattern is good: it matched
		for _, file := range files {
			if sequencesRise(file) {
				continue
			}
			if err := os.Remove(filepath.Join(stream, indexFileName)); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("journal: remove the index of a damaged store: %w", err)
			}
			break
		}
	}
	return nil
}

// sequencesRise reports whether the numbers in a file rise by plausible steps. It is true for
// other damage, also for a file that cannot be read: the store notices that.
func sequencesRise(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return true
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 256<<10)
	for last := uint64(0); ; {
		var h [recordHeader]byte
		if _, err := io.ReadFull(r, h[:]); err != nil {
			return true
		}
		length := binary.LittleEndian.Uint32(h[:]) &^ headersBit
		seq := binary.LittleEndian.Uint64(h[4:])
		if length < recordHeader {
			return true
		}
		if seq&tombstoneBit == 0 {
			seq &^= erasedBit
			if last != 0 && seq > last+largestHole {
				return false
			}
			last = max(last, seq)
		}
		if _, err := r.Discard(int(length) - recordHeader); err != nil {
			return true
		}
	}
}
