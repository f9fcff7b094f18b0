package sqlitelog

import (
	"encoding/binary"
	"hash/crc32"
)

// checksum computes the sums of rows: a CRC-32C over the first epoch of the file and the columns
// in their order in the table, each number as eight bytes, little-endian, and each text or blob
// after its length. So a row is valid only in its file and at its place.
type checksum struct {
	table *crc32.Table
	start []byte // of every sum: the first epoch
	buf   []byte
}

func newChecksum(origin string) *checksum {
	c := &checksum{table: crc32.MakeTable(crc32.Castagnoli)}
	c.start = appendText(nil, origin)
	return c
}

func appendText[T string | []byte](b []byte, s T) []byte {
	return append(binary.LittleEndian.AppendUint64(b, uint64(len(s))), s...)
}

// begin begins a sum with numbers.
func (c *checksum) begin(numbers ...int64) {
	c.buf = append(c.buf[:0], c.start...)
	for _, n := range numbers {
		c.buf = binary.LittleEndian.AppendUint64(c.buf, uint64(n))
	}
}

// text adds a text or blob.
func (c *checksum) text(s string)  { c.buf = appendText(c.buf, s) }
func (c *checksum) bytes(b []byte) { c.buf = appendText(c.buf, b) }

// end returns the sum, last being another text that need not be copied first.
func (c *checksum) end(last []byte) int64 {
	c.buf = binary.LittleEndian.AppendUint64(c.buf, uint64(len(last)))
	return int64(crc32.Update(crc32.Update(0, c.table, c.buf), c.table, last))
}
