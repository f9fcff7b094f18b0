#!/usr/bin/env bash
# Publishes the npm packages to a registry on this machine, installs them with npm and pnpm, and runs,
# upgrades and removes them, with the Node of this machine and with one that can replace itself. Then it
# validates and starts the MCP bundles. It needs Linux, Node 20 or later, jq and curl.
# usage: scripts/npm-test.sh [DIR]
# DIR is a folder that scripts/package.sh made. Without it the programs are compiled.
set -euo pipefail
if (($# > 1)) || [[ ${1-} == -* ]]; then
	echo "usage: scripts/npm-test.sh [DIR]" >&2
	exit 2
fi
if [[ $(uname) != Linux ]]; then
	echo 'this test reads /proc, so it needs Linux' >&2
	exit 1
fi
release=
[[ -z ${1-} ]] || release=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."

tmp=$(mktemp -d)
registry=
step=start
finish() {
	local rc=$?
	[[ -z $registry ]] || kill "$registry" 2>/dev/null || true
	wait
	rm -rf "$tmp"
	((rc == 0)) || echo "npm-test.sh: $step failed" >&2
}
trap finish EXIT
trap 'exit 130' INT TERM

# Fails unless two texts are equal.
same() {
	[[ $1 == "$2" ]] || { printf '%s: got %s, want %s\n' "$3" "$1" "$2" && return 1; }
}

# Waits until a command succeeds, for at most a minute.
until_true() {
	local i
	for ((i = 0; i < 600; i++)); do
		if "$@"; then return; fi
		sleep 0.1
	done
	echo "waited for a minute: $*"
	return 1
}

step='bundles.sh'
host=()
if [[ -z $release ]]; then
	host=(-host)
	release=$tmp/release
	mkdir -p "$release/mcptrack"
	CGO_ENABLED=0 go build -trimpath -o "$release/mcptrack/" ./cmd/mcptrack ./cmd/mcptrack-attach
	tar -czf "$release/mcptrack_$(go env GOOS)_$(go env GOARCH).tar.gz" -C "$release" mcptrack
fi
bash scripts/bundles.sh "${host[@]}" "$tmp/first" 1.0.0 "$release"
bash scripts/bundles.sh -host "$tmp/next" 1.1.0 "$release"

# The tools come from the lockfile. One dependency of verdaccio is named by a tag that not every mirror
# has; package.json names its version.
step='npm ci'
mkdir "$tmp/tools"
cp testdata/npm/package.json testdata/npm/package-lock.json testdata/npm/.npmrc "$tmp/tools/"
(cd "$tmp/tools" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error >/dev/null)
tools=$tmp/tools/node_modules
case $(uname -m) in
x86_64) cpu=x64 arch=amd64 ;;
*) cpu=arm64 arch=arm64 ;;
esac
newer=$tools/node-linux-$cpu/bin

# From here on, everything comes from the registry: it knows no other.
export HOME=$tmp/home XDG_RUNTIME_DIR='' XDG_CONFIG_HOME='' XDG_STATE_HOME='' XDG_DATA_HOME='' XDG_CACHE_HOME=''
mkdir "$HOME"
step=registry
port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => { console.log(s.address().port); s.close() })')
cat >"$tmp/verdaccio.yaml" <<-END
	storage: $tmp/storage
	max_body_size: 200mb
	packages:
	  '**': {access: \$all, publish: \$all}
	log: {type: stdout, format: json, level: warn}
END
"$newer/node" "$tools/verdaccio/bin/verdaccio" --config "$tmp/verdaccio.yaml" --listen "127.0.0.1:$port" >"$tmp/verdaccio.log" 2>&1 &
registry=$!
until_true curl -fsS -o /dev/null "http://127.0.0.1:$port/-/ping" 2>/dev/null || { cat "$tmp/verdaccio.log" && exit 1; }
export npm_config_registry="http://127.0.0.1:$port/" npm_config_update_notifier=false npm_config_fund=false npm_config_audit=false
echo "//127.0.0.1:$port/:_authToken=none" >"$HOME/.npmrc"

step=publish
publish() {
	local file
	for file in "$1"/npm/*.tgz; do npm publish --loglevel=error "$file" >/dev/null; done
}
publish "$tmp/first"

mkdir "$tmp/direct" "$tmp/notes"
tar -xzf "$tmp/first/npm/mcptrack-linux-$cpu-1.0.0.tgz" -C "$tmp/direct"
direct=$tmp/direct/package/bin/mcptrack
printf '# A note\n' >"$tmp/notes/a.md"
printf '{"mcpServers": {"a": {"command": 5}}}' >"$tmp/bad.json"
initialize='{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"test","version":"1"}}}'

# Starts a server on stdio, ends its stdin after a request, and fails unless it answers and exits with 0.
serves() {
	local answer
	answer=$(printf '%s\n' "$initialize" | "$@")
	jq -es '.[0].result.serverInfo.name' <<<"$answer" >/dev/null || { echo "$*: answered $answer" && return 1; }
}

result() {
	local rc=0
	"$@" >/dev/null 2>&1 || rc=$?
	echo "$rc"
}

has_lines() { [[ -s $1 ]]; }

# Prints how a program that follows the demo ends after a signal.
# usage: ends SIGNAL COMMAND...; ended has what the process was while it ran: the name of its program, and
# the number of its children that are mcptrack
ended=
ends() {
	local signal=$1 pid rc=0 children
	shift
	rm -f "$tmp/events"
	set -m # or the shell would make the program ignore SIGINT
	"$@" watch --demo --json >"$tmp/events" 2>/dev/null </dev/null &
	pid=$!
	set +m
	until_true has_lines "$tmp/events" >&2
	children=$(pgrep -c -P "$pid" '^mcptrack' || true)
	ended="$(basename "$(readlink "/proc/$pid/exe")") $children"
	pgrep -P "$pid" >"$tmp/children" || true
	kill -s "$signal" "$pid"
	wait "$pid" || rc=$?
	while read -r pid; do
		if [[ -e /proc/$pid ]]; then echo "process $pid is left" >&2 && return 1; fi
	done <"$tmp/children"
	echo "$signal: $rc $ended"
}

# usage: runs PROCESS COMMAND...   (PROCESS is what the command becomes: mcptrack or node)
runs() {
	local process=$1 signal want got
	shift
	same "$("$@" version)" "$("$direct" version)" version
	same "$("$@" watch --demo --count 3 --json | jq -r 'select(.type == "resource.updated").type' | wc -l)" 3 'changes'
	same "$(result "$@" validate "$tmp/bad.json")" "$(result "$direct" validate "$tmp/bad.json")" 'exit code of validate'
	[[ $(result "$@" validate "$tmp/bad.json") != 0 ]]
	serves "$@" vault --stdio "$tmp/notes"
	for signal in TERM INT HUP; do
		want=$(ends "$signal" "$direct")
		got=$(ends "$signal" "$@")
		same "${got% * *}" "${want% * *}" "exit after SIG$signal"
		if [[ $process == node ]]; then want="$signal: 0 node 1"; fi
		same "${got#* * }" "${want#* * }" "the process at SIG$signal"
	done
}

# The same with each Node: what the program becomes depends on whether Node has execve.
runs_everywhere() {
	local node
	for node in "$(dirname "$(command -v node)")" "$newer"; do
		step="$1, Node $("$node/node" --version)"
		local becomes=node
		[[ $("$node/node" -p 'typeof process.execve') != function ]] || becomes=mcptrack
		PATH=$node:$PATH runs "$becomes" "$PWD/node_modules/.bin/mcptrack"
		same "$(PATH=$node:$PATH "$PWD/node_modules/.bin/mcptrack-attach" --version)" "$("$(dirname "$direct")/mcptrack-attach" --version)" 'version of mcptrack-attach'
		echo "$step: works, as $becomes"
	done
}

versions() {
	# shellcheck disable=SC2016 # for Node
	node -p 'const p = require("fs").realpathSync("node_modules/mcptrack"); require(p + "/package.json").version + " " + require(require.resolve(`@mcptrack/${process.platform}-${process.arch}/package.json`, {paths: [p]})).version'
}

# usage: installer NAME ADD REMOVE COMMAND...
installer() {
	local name=$1 add=$2 remove=$3
	shift 3
	mkdir "$tmp/$name"
	cd "$tmp/$name"
	echo '{"private": true}' >package.json
	step="$name $add"
	"$@" "$add" mcptrack@1.0.0 >"$tmp/log" 2>&1 || { cat "$tmp/log" && return 1; }
	same "$(versions)" '1.0.0 1.0.0' 'installed versions'
	[[ $name != npm ]] || runs_everywhere "$name"
	step="$name, upgrade"
	"$@" "$add" mcptrack@1.1.0 >"$tmp/log" 2>&1 || { cat "$tmp/log" && return 1; }
	same "$(versions)" '1.1.0 1.1.0' 'versions after the upgrade'
	same "$(node_modules/.bin/mcptrack version)" "$("$direct" version)" 'version after the upgrade'
	step="$name, @mcptrack/vault"
	"$@" "$add" @mcptrack/vault@1.1.0 >"$tmp/log" 2>&1 || { cat "$tmp/log" && return 1; }
	serves node_modules/.bin/mcptrack-vault "$tmp/notes"
	step="$name, $remove"
	"$@" "$remove" mcptrack @mcptrack/vault >"$tmp/log" 2>&1 || { cat "$tmp/log" && return 1; }
	[[ ! -e node_modules/mcptrack && ! -e node_modules/.bin/mcptrack && ! -e node_modules/.bin/mcptrack-vault ]]
	echo "$name: installed, upgraded and removed"
}

# In place of a package that is missing there is an error that says what to do.
refused() {
	local out rc=0
	out=$("${@:2}" 2>&1) || rc=$?
	same "$rc" 1 'exit code'
	[[ $out == "mcptrack: $1"* && $out != *$'\n'* ]] || { echo "error: $out" && return 1; }
}

publish "$tmp/next" # npm would otherwise warn that there is a newer one
installer npm install uninstall npm --loglevel=error
installer pnpm add remove "$newer/node" "$tools/pnpm/bin/pnpm.cjs"

step='npx'
mkdir "$tmp/npx"
cd "$tmp/npx"
same "$(npx --yes mcptrack@1.0.0 version)" "$("$direct" version)" 'version with npx'
serves npx --yes @mcptrack/vault@1.0.0 "$tmp/notes"

step='npm install --omit=optional'
mkdir "$tmp/omitted"
cd "$tmp/omitted"
npm install --loglevel=error --omit=optional mcptrack@1.0.0 >/dev/null
refused "the package @mcptrack/linux-$cpu, which contains the program, is not installed" node_modules/.bin/mcptrack version
step='another platform'
refused 'there is no program for linux-ppc64, only for ' \
	node -e 'Object.defineProperty(process, "arch", {value: "ppc64"}); require("mcptrack/launch.js")("mcptrack", ["version"])'
echo 'npx, a missing package, another platform: as expected'

# What the client makes of a bundle: it is unpacked, and its program started with the folder.
step='bundles'
for bundle in "$tmp"/first/mcpb/*.mcpb; do
	"$newer/node" "$tools/@anthropic-ai/mcpb/dist/cli/cli.js" unpack "$bundle" "$tmp/bundle" >/dev/null
	"$newer/node" "$tools/@anthropic-ai/mcpb/dist/cli/cli.js" validate "$tmp/bundle" >"$tmp/log" 2>&1 || { cat "$tmp/log" && exit 1; }
	case ${bundle##*/} in
	mcptrack-vault_linux_"$arch".mcpb) chosen=$tmp/notes ;;
	mcptrack-gateway_linux_"$arch".mcpb)
		chosen=$tmp/servers.json
		jq -n --arg program "$direct" '{mcpServers: {demo: {command: $program, args: ["demo-server"]}}}' >"$chosen"
		;;
	*) chosen= ;;
	esac
	if [[ -n $chosen ]]; then
		mapfile -t command < <(jq -r --arg dir "$tmp/bundle" --arg chosen "$chosen" '.server.mcp_config | .command, .args[]
			| gsub("\\$\\{__dirname\\}"; $dir) | gsub("\\$\\{user_config\\.[a-z]+\\}"; $chosen)' "$tmp/bundle/manifest.json")
		serves "${command[@]}"
	fi
	rm -rf "$tmp/bundle"
	echo "${bundle##*/}: valid${chosen:+, and serves}"
done
