#!/usr/bin/env bash
# Installs the peers of the tests and the benchmark: the npm servers and clients of testdata/peers
# by lockfile, and the Go SDK's conformance server into .cache/bin. It skips what is up to date, and
# prints only failures.
# usage: scripts/peers.sh [FOLDER...]
# FOLDER is another folder of testdata with a lockfile: conformance or nightly.
set -euo pipefail
cd "$(dirname "$0")/.."

# Runs a command and shows what it printed only if it fails.
quietly() {
	local out
	if ! out=$("$@" 2>&1); then
		printf 'peers.sh: failed: %s\n%s\n' "$*" "$out" >&2
		return 1
	fi
}

# Runs a command unless the files it depends on are unchanged since its last success.
# usage: once STAMP FILE,FILE,… RESULT COMMAND…
once() {
	local stamp=.cache/$1.stamp inputs=${2//,/ } result=$3 now
	shift 3
	# shellcheck disable=SC2086 # a list of names without spaces
	now=$(go env GOVERSION GOOS GOARCH | cat - $inputs | git hash-object --stdin)
	[[ -e $result && -e $stamp && $(<"$stamp") == "$now" ]] && return
	rm -f "$stamp"
	"$@"
	printf '%s\n' "$now" >"$stamp"
}

npm_peers() { # FOLDER
	[[ ! -L testdata/$1/node_modules ]] || return 0 # npm ci would empty the folder of another checkout
	if ! command -v npm >/dev/null && command -v apt-get >/dev/null && [[ $(id -u) == 0 ]]; then
		quietly apt-get update
		quietly apt-get install -y --no-install-recommends nodejs npm
	fi
	if ! command -v npm >/dev/null; then
		echo "peers.sh: npm is needed to install testdata/$1; install Node 20 or later" >&2
		return 1
	fi
	# No package needs its install script. The newer Node that the Inspector needs is one of the
	# packages.
	(cd "testdata/$1" && quietly npm ci --ignore-scripts --no-audit --no-fund --loglevel=error)
}

go_peers() {
	quietly go build -modfile=scripts/tools.mod -o .cache/bin/ \
		github.com/modelcontextprotocol/go-sdk/conformance/everything-server
}

mkdir -p .cache/bin
for folder in peers "$@"; do
	once "$folder-npm" "testdata/$folder/package-lock.json,testdata/$folder/package.json" \
		"testdata/$folder/node_modules/@modelcontextprotocol" npm_peers "$folder"
done
once peers-go scripts/tools.mod,scripts/tools.sum .cache/bin/everything-server go_peers
