package commands

import (
	"github.com/mcptrack/mcptrack/core/secretfile"
)

// readSecret reads the file that a flag names.
func readSecret(flag, file string) (string, error) {
	secret, err := secretfile.Read(file)
	if err != nil {
		return "", usage("--%s: %w", flag, err)
	}
	return secret, nil
}
