#!/usr/bin/env bash
# Regenerates the pictures of the README: .github/dashboard.png and .github/terminal.png.
# Needs chromium.
# usage: scripts/pictures.sh [DIR]
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-.github}
mkdir -p "$dir" .cache/bin
dir=$(cd "$dir" && pwd)
go build -o .cache/bin/mcptrack ./cmd/mcptrack
program=$PWD/.cache/bin/mcptrack
cd scripts/docs
go run ./pictures "$program" "$dir"
