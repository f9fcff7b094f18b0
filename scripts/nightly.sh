#!/usr/bin/env bash
# What takes longer than scripts/check.sh may. .github/workflows/nightly.yml runs the steps side by side.
# usage: scripts/nightly.sh [STEP...]
# By default it runs all of them, also after one that fails:
#   race          the small tests of all packages with the race detector
#   large         all tests with large sizes, also with a dozen published servers from npm
#   chaos         everything fails at random, for MCPTRACK_CHAOS, by default 30m
#   mutants       the tests notice defects
#   portable      go vet on code and tests as they are compiled for Windows and macOS
#   vulns         known vulnerabilities
#   bench         speed, on an idle machine
#   conformance, conformance-login, matrix   the official suites, and published clients
#   release       builds a release, installs, upgrades and removes each kind of package, and builds it again
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022 # mcptrack refuses what others may write, also in the temporary folders of tests
all=(race large chaos mutants portable vulns bench conformance conformance-login matrix release)

tests() { go test -timeout 3h -count=1 "$@"; }

programs() {
	local missing
	mapfile -t missing < <(bash scripts/programs.sh)
	((${#missing[@]} == 0)) || echo "left out: tests with ${missing[*]}"
}

# SQLite, which is translated from C, is much slower with the race detector, which ignores the memory that it uses.
race() {
	programs
	GORACE=atexit_sleep_ms=50 tests -short -race '-gcflags=modernc.org/sqlite/lib=-race=false' ./...
}

large() {
	programs
	bash scripts/peers.sh nightly
	tests ./...
}

chaos() {
	programs
	MCPTRACK_CHAOS=${MCPTRACK_CHAOS:-30m} tests -v -run Chaos ./output/chaos
}

mutants() { go run ./scripts/mutants; }

portable() {
	local os
	for os in windows darwin; do GOOS=$os CGO_ENABLED=0 go vet ./...; done
}

release() {
	local root=()
	[[ $(id -u) == 0 ]] || root=(sudo env "PATH=$PATH")
	bash scripts/package.sh
	"${root[@]}" bash scripts/install-test.sh
	bash scripts/npm-test.sh
}

(($#)) || set -- "${all[@]}"
for step; do
	[[ " ${all[*]} " == *" $step "* ]] || { echo "nightly.sh: no step $step; there are: ${all[*]}" >&2 && exit 2; }
done
if (($# == 1)); then
	if declare -F "$1" >/dev/null; then "$1"; else bash "scripts/$1.sh"; fi
	exit
fi
failed=()
for step; do
	echo "== $step"
	began=$SECONDS
	bash scripts/nightly.sh "$step" || failed+=("$step")
	echo "-- $step: $((SECONDS - began))s"
done
((${#failed[@]} == 0)) || { echo "nightly.sh: failed: ${failed[*]}" && exit 1; }
