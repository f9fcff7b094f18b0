package web

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"runtime"

	"github.com/mcptrack/mcptrack/core/printable"
)

// maxPEM is the size of the largest certificate or key file.
const maxPEM = 1 << 20

// LoadTLS reads a certificate chain and its private key, both PEM files, once. Others
// must not be able to read the key (not checked on Windows). Errors about the files
// and their content are of type *[OptionError], without any of the content.
func LoadTLS(certFile, keyFile string) (*tls.Config, error) {
	cert, err := readPEM("tls-cert", certFile, 0)
	if err != nil {
		return nil, err
	}
	key, err := readPEM("tls-key", keyFile, 0o007)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &OptionError{"tls-cert", printable.Line(certFile, 256) + ": not a certificate for the key in " + printable.Line(keyFile, 256)}
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, nil
}

// readPEM reads a regular file of limited size whose mode has none of the forbidden
// bits.
func readPEM(option, path string, forbidden fs.FileMode) ([]byte, error) {
	refuse := func(format string, args ...any) ([]byte, error) {
		return nil, &OptionError{option, printable.Line(path, 256) + ": " + fmt.Sprintf(format, args...)}
	}
	// Opening a FIFO would block: check before, and again what was opened.
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return refuse("not a regular file")
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return refuse("no such file")
	} else if err != nil {
		return refuse("%v", errors.Unwrap(err))
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	switch {
	case err != nil:
		return refuse("%v", errors.Unwrap(err))
	case !info.Mode().IsRegular():
		return refuse("not a regular file")
	case runtime.GOOS != "windows" && info.Mode().Perm()&forbidden != 0:
		return refuse("mode %04o lets others read it; run chmod 600", info.Mode().Perm())
	case info.Size() > maxPEM:
		return refuse("larger than %d bytes", maxPEM)
	}
	data, err := io.ReadAll(io.LimitReader(f, maxPEM+1))
	if err != nil {
		return refuse("%v", err)
	}
	return data, nil
}
