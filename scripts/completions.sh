#!/usr/bin/env bash
# Generates the shell completions into a folder, completions/ by default. check.sh fails if
# completions/ is out of date.
# usage: scripts/completions.sh [DIR]
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-completions}

mkdir -p .cache/bin "$dir"
go build -o .cache/bin/mcptrack ./cmd/mcptrack
.cache/bin/mcptrack completion bash >"$dir/mcptrack.bash"
.cache/bin/mcptrack completion zsh >"$dir/_mcptrack"
.cache/bin/mcptrack completion fish >"$dir/mcptrack.fish"
.cache/bin/mcptrack completion powershell >"$dir/mcptrack.ps1"
