#!/usr/bin/env bash
# Makes the pictures of the README: dashboard-light.png, dashboard-dark.png, terminal-light.png and
# terminal-dark.png. It takes a minute, and needs chromium and tmux.
# usage: scripts/pictures.sh [DIR]
# DIR is where they are written, .github by default.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${1:-.github}
mkdir -p "$dir" .cache/bin
dir=$(cd "$dir" && pwd)
go build -o .cache/bin/mcptrack ./cmd/mcptrack
program=$PWD/.cache/bin/mcptrack
cd scripts/docs
go run ./pictures "$program" "$dir"
