package commands

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"

	"github.com/mcptrack/mcptrack/core/printable"
)

// maxSecret is the longest secret, in bytes.
const maxSecret = 8 << 10

// readSecret reads the one line of a file that only its owner may read (mode 0600
// or less; not checked on Windows), for a flag.
func readSecret(flag, file string) (string, error) {
	refuse := func(format string, args ...any) (string, error) {
		return "", usage("--%s: %s: %s", flag, printable.Line(file, 256), fmt.Sprintf(format, args...))
	}
	// A FIFO would block the open for ever: look first, and again at what was opened.
	info, err := os.Stat(file)
	switch {
	case os.IsNotExist(err):
		return refuse("no such file")
	case err == nil && !info.Mode().IsRegular():
		return refuse("is no regular file")
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	defer func() { _ = f.Close() }()
	if info, err = f.Stat(); err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	switch {
	case !info.Mode().IsRegular():
		return refuse("is no regular file")
	case runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0:
		return refuse("mode is %04o, others could read it; chmod 600", info.Mode().Perm())
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	secret := strings.TrimSpace(string(text))
	switch {
	case secret == "":
		return refuse("is empty")
	case len(text) > maxSecret || strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r > '~' }):
		return refuse("has more than one line of visible ASCII characters")
	}
	return secret, nil
}
