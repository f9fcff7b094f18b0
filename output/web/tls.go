package web

import (
	"crypto/tls"

	"github.com/mcptrack/mcptrack/core/printable"
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// maxPEM is the size of the largest certificate or key file, in bytes.
const maxPEM = 1 << 20

// LoadTLS reads a certificate chain and its private key from PEM files, once: later changes of
// the files have no effect. Users other than the owner and the group must not have access to
// the key (not checked on Windows). Errors about the files and their content are of type
// *[OptionError] and quote none of the content.
func LoadTLS(certFile, keyFile string) (*tls.Config, error) {
	cert, err := secretfile.Load(certFile, maxPEM, 0)
	if err != nil {
		return nil, &OptionError{"tls-cert", err.Error()}
	}
	key, err := secretfile.Load(keyFile, maxPEM, 0o007)
	if err != nil {
		return nil, &OptionError{"tls-key", err.Error()}
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, &OptionError{"tls-cert", printable.Line(certFile, 256) + ": not a certificate for the key in " + printable.Line(keyFile, 256)}
	}
	return &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}, nil
}
