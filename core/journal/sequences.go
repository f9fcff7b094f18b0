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

// checkSequences makes the store read itself anew where a sequence number jumps.
// A store that trusts its index counts up to such a number, which for one flipped
// byte takes years and all memory (nats-server 2.15, indexCacheBuf). Without the
// index it holds every record against its hash when it starts, and ends the log
// before the first that is wrong; elsewhere damage costs only the record that has
// it, so the index stays as long as it does no harm.
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
				return fmt.Errorf("journal: have a damaged store checked: %w", err)
			}
			break
		}
	}
	return nil
}

// sequencesRise reports whether the numbers in a file rise by sane steps. Of other
// damage, also a file that cannot be read, it says nothing: the store notices.
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
