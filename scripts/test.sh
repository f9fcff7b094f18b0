#!/usr/bin/env bash
# The loop while you write code: go vet and the short tests, then the ten slowest tests.
# The short tests need no installed program and no npm package, and run without the race
# detector. scripts/check.sh runs all tests.
# usage: scripts/test.sh [PACKAGE...]
# Without a package it tests all of them.
set -euo pipefail
cd "$(dirname "$0")/.."

(($#)) || set -- ./...
for arg; do
	if [[ $arg == -* ]]; then
		echo "usage: scripts/test.sh [PACKAGE...], for example scripts/test.sh ./core/tracker/..." >&2
		exit 2
	fi
done
log=$(mktemp)
trap 'rm -f "$log"' EXIT
gotestsum() { go tool -modfile=scripts/tools.mod gotestsum "$@"; }

go vet "$@"
rc=0
gotestsum --format pkgname --format-hide-empty-pkg --hide-summary skipped --jsonfile "$log" \
	-- -short -vet=off -parallel 8 "$@" || rc=$?
echo 'slowest tests:'
gotestsum tool slowest --threshold 10ms --num 10 --jsonfile "$log"
exit "$rc"
