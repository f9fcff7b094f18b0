package commands

import (
	"errors"
	"fmt"

	"github.com/mcptrack/mcptrack/core/secretfile"
)

// readSecret reads the file that a flag names.
func readSecret(flag, file string) (string, error) {
	secret, err := secretfile.Read(file)
	if refused, ok := errors.AsType[*secretfile.RefusedError](err); ok {
		return "", usage("--%s: %w", flag, refused)
	} else if err != nil {
		return "", fmt.Errorf("--%s: %w", flag, err)
	}
	return secret, nil
}
