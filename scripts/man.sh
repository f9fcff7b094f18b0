#!/usr/bin/env bash
# Writes the man pages that are generated from the program's help: man -l DIR/mcptrack.1
# usage: scripts/man.sh DIR
set -euo pipefail
dir=${1:?usage: scripts/man.sh DIR}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
cd "$(dirname "$0")/docs"
go run ./man "$dir"
