package main

import "os"

// stream returns a stream of this process as it is.
func stream(f *os.File) (_ *os.File, restore func()) { return f, func() {} }
