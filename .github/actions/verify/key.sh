#!/usr/bin/env bash
# Writes the key under which a built mcptrack is cached: it covers the system and every file that
# mcptrack is built from.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../../.."

hash=sha256sum
command -v sha256sum >/dev/null || hash='shasum -a 256' # macOS
export LC_ALL=C
# shellcheck disable=SC2086 # a command and its arguments
sum=$(find cmd commands core output go.mod go.sum -type f | sort | tr '\n' '\0' | xargs -0 cat | $hash)
printf 'key=mcptrack-%s-%s-%s\n' "$RUNNER_OS" "$RUNNER_ARCH" "${sum%% *}" >>"$GITHUB_OUTPUT"
