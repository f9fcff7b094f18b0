#!/usr/bin/env bash
# Generates man pages from the program's help into DIR. To read one: man -l DIR/mcptrack.1
# usage: scripts/man.sh DIR
set -euo pipefail
dir=${1:?usage: scripts/man.sh DIR}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
cd "$(dirname "$0")/docs"
go run ./man "$dir"
