#!/usr/bin/env bash
# Generates man pages from the program's help into DIR. To read one: man -l DIR/mcptrack.1
# usage: scripts/man.sh DIR
set -euo pipefail
dir=${1:?usage: scripts/man.sh DIR}
mkdir -p "$dir"
dir=$(cd "$dir" && pwd)
cd "$(dirname "$0")/.."

# The dependencies of the program, and what only this needs: go.mod stays without them.
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp go.mod "$tmp/man.mod"
cat go.sum - >"$tmp/man.sum" <<-END
	github.com/cpuguy83/go-md2man/v2 v2.0.6 h1:XJtiaUW6dEEqVuZiMTn1ldk455QWwEIsMIJlo5vtkx0=
	github.com/russross/blackfriday/v2 v2.1.0 h1:JIOH55/0cWyOuilr9/qlrm0BSXldqnqwMsf35Ld67mk=
END
go mod edit -require=github.com/cpuguy83/go-md2man/v2@v2.0.6 -require=github.com/russross/blackfriday/v2@v2.1.0 "$tmp/man.mod"
go run -modfile="$tmp/man.mod" scripts/man.go "$dir"
