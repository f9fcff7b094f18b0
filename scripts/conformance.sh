#!/usr/bin/env bash
# Runs the official conformance suites for servers, the released one and the next one,
# against reference servers, directly, through `mcptrack gateway`, and through a gateway whose server
# is `mcptrack-attach`, and so through the daemon, for each protocol version. Fails if a scenario that
# passes directly is missing or fails more checks through one of them. Prints rows in which fewer checks pass because some became warnings or remarks: the
# gateway answers with JSON if no stream is needed (so server-sse-polling, which asks how a server ends its own
# stream, has nothing to check), and does not announce an unchanged list. Each
# reference and its gateway are one process that serves both eras.
#
# usage: [TYPESCRIPT_SDK=DIR] conformance.sh [REFERENCE…]    (default: go tasks skills, and typescript if DIR is given)
#
#   go          the server of the Go SDK, which serves one era for each handler: here a
#               request goes to the one of its era, over the same server
#   typescript  test/conformance/src/everythingServer.ts of a checkout of the TypeScript SDK in
#               DIR, as no package has it; it runs on the packages of testdata/conformance
#   tasks       the extension of 2026-07-28: testdata/peers/tasks.mjs on the same
#   skills      the extension of SEP-2640: `mcptrack vault`, all of whose checks must pass; the Inspector
#               verifies every file, too
#
# Needs npm and the Go toolchain. The suites, their Node and the packages of the SDK come
# from testdata/conformance, the others from scripts/peers.sh. Reports stay in
# .cache/conformance.
set -euo pipefail
cd "$(dirname "$0")/.."
references=("$@")
if ((${#references[@]} == 0)); then
	references=(go tasks skills ${TYPESCRIPT_SDK:+typescript})
	[[ -n ${TYPESCRIPT_SDK-} ]] || echo 'not run: typescript, as TYPESCRIPT_SDK names no checkout of the TypeScript SDK' >&2
fi

scripts/peers.sh conformance
dir=testdata/conformance
modules=$dir/node_modules
node=$(compgen -G "$modules/node-linux-*/bin/node" | head -1)
out=.cache/conformance
rm -rf $out && mkdir -p $out
go build -o $out/ ./cmd/mcptrack ./cmd/mcptrack-attach

# Builds the reference of the Go SDK with both of its handlers.
build_go() {
	local sdk own=$out/everything-server
	sdk=$(go list -modfile=scripts/tools.mod -m -f '{{.Dir}}' github.com/modelcontextprotocol/go-sdk)
	mkdir -p "$own"
	sed 's/ListenAndServe(\*httpAddr, handler)/ListenAndServe(*httpAddr, bothEras(server))/; s/^\t\thandler := /\t\t_ = /' \
		"$sdk/conformance/everything-server/main.go" >"$own/main.go"
	cp $dir/both_eras.go.txt "$own/both_eras.go"
	go build -modfile=scripts/tools.mod -o $out/reference-go "./$own"
}

# The server of the TypeScript SDK, on loopback only.
build_typescript() {
	sed "s/app\.listen(PORT,/app.listen(Number(PORT), '127.0.0.1',/" \
		"${TYPESCRIPT_SDK:?must name a checkout of the TypeScript SDK}/test/conformance/src/everythingServer.ts" >$out/everything.ts
	grep -q "127.0.0.1'," $out/everything.ts
	ln -s "$PWD/$modules" $out/node_modules
}

# The daemon has a folder of its own, with a short path for its socket.
home=$(mktemp -d)
export MCPTRACK_SOCKET=$home/s XDG_STATE_HOME=$home XDG_CACHE_HOME=$home MCPTRACK_TRUST=$PWD

pids=()
stop() {
	((${#pids[@]})) && kill "${pids[@]}" 2>/dev/null && wait "${pids[@]}" 2>/dev/null
	pids=()
	$out/mcptrack daemon stop 2>/dev/null || true
	return 0
}
trap 'stop; rm -rf "$home"' EXIT

# Waits until something listens on a port.
listens() {
	for _ in {1..100}; do
		(: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null && return
		sleep 0.1
	done
	echo "conformance.sh: nothing listens on port $1" >&2
	return 1
}

# Runs a suite for a version at a URL and writes "SCENARIO PASSED FAILED" lines.
suite() { # PACKAGE VERSION URL REPORT
	case $2 in
	tasks) extension "$1" 'tasks-[a-z-]+' "$3" "$4" && return ;;
	skills) extension "$1" 'sep-2640-[a-z-]+' "$3" "$4" && return ;;
	esac
	"$node" "$modules/$1/dist/index.js" server --url "$3" \
		--suite all --spec-version "$2" -o "$4" >"$4.log" 2>&1 || true
	sed -nE 's/^[✓✗] ([a-z0-9-]+): ([0-9]+) passed, ([0-9]+) failed.*/\1 \2 \3/p' "$4.log" | sort >"$4.txt"
}

# The suites run no scenarios of extensions by themselves.
extension() { # PACKAGE SCENARIOS URL REPORT
	local suite=$modules/$1/dist/index.js scenario
	for scenario in $("$node" "$suite" list --server | sed -nE "s/^ *- ($2) \\[extension\\]\$/\\1/p"); do
		timeout 90 "$node" "$suite" server --url "$3" --scenario "$scenario" --spec-version 2026-07-28 --force \
			>"$4-$scenario.log" 2>&1 || true
		sed -nE "s|^Passed: ([0-9]+)/[0-9]+, ([0-9]+) failed.*|$scenario \1 \2|p" "$4-$scenario.log"
	done | sort >"$4.txt"
}

# Two skills, one with a subfolder, in a vault.
build_skills() {
	local name
	for name in git-flow pdf; do
		mkdir -p "$out/vault/$name/scripts"
		printf -- '---\nname: %s\ndescription: What it is for\nmetadata: {version: "1.0"}\n---\n# Steps\n' $name >"$out/vault/$name/SKILL.md"
		printf '#!/bin/sh\n' >"$out/vault/$name/scripts/run.sh"
	done
}

# Starts a reference on a port, in the background.
reference() { # NAME PORT
	case $1 in
	tasks) "$node" testdata/peers/tasks.mjs --http="$2" & ;;
	skills) $out/mcptrack vault "$out/vault" --addr "127.0.0.1:$2" & ;;
	typescript) PORT=$2 "$node" "$out/everything.ts" & ;;
	go) $out/reference-go -http "127.0.0.1:$2" & ;;
	*) echo "conformance.sh: unknown reference $1" >&2 && return 2 ;;
	esac
}

passing() { awk '$2 > 0 && $3 == 0' "$1" | wc -l; }

lost=0
# Compares what a suite says about a reference directly, through the gateway, and through attach.
compare() { # NAME PACKAGE VERSION DIRECT GATEWAY ATTACH
	local report=$out/$1-${2##*/}-$3 way rows
	suite "$2" "$3" "$4" "$report-direct"
	suite "$2" "$3" "$5" "$report-gateway"
	suite "$2" "$3" "$6" "$report-attach"
	printf '%-10s %-20s %-10s: of %s scenarios %s pass directly, %s through the gateway, %s through attach\n' "$1" "${2##*/}" "$3" \
		"$(wc -l <"$report-direct.txt")" "$(passing "$report-direct.txt")" "$(passing "$report-gateway.txt")" "$(passing "$report-attach.txt")"
	[[ -s $report-direct.txt ]] || { echo "conformance.sh: the suite did not run; see $report-direct.log" >&2; exit 1; }
	for way in gateway attach; do
		rows=$(join -a1 "$report-direct.txt" "$report-$way.txt" | awk -v way=$way '
			NF < 5 || $5 > $3 || $2 > 0 && $4 == 0 && $1 !~ /^server-sse-polling/ {print "  lost through " way ":", $1; next}
			$4 < $2 {print "  remarks:", $1, $2, "checks passed directly,", $4, "through", way}')
		[[ -z $rows ]] || echo "$rows"
		[[ $rows != *"  lost"* ]] || lost=1
	done
}

released=conformance-released
next=@modelcontextprotocol/conformance
port=${CONFORMANCE_PORT:-18800}
for name in "${references[@]}"; do
	server=$((port++)) gateway=$((port++))
	[[ $name == tasks ]] || "build_$name"
	reference "$name" $server >"$out/$name-server.log" 2>&1
	pids+=($!)
	listens $server
	url=http://127.0.0.1:$server/mcp
	cat >"$out/$name.json" <<-JSON
		{"mcpServers": {"everything": {"type": "http", "url": "$url", "trackResources": true}}}
	JSON
	$out/mcptrack gateway --config "$out/$name.json" --addr 127.0.0.1:$gateway >"$out/$name-gateway.log" 2>&1 &
	pids+=($!)
	listens $gateway
	through=http://127.0.0.1:$gateway/mcp
	# A client of attach speaks one era, and so does the gateway that stands for it.
	declare -A attached=()
	for era in legacy modern; do
		attach=$((port++))
		cat >"$out/$name-$era.json" <<-JSON
			{"mcpServers": {"everything": {"command": "$PWD/$out/mcptrack-attach", "trackResources": true, "protocol": "$era",
				"args": ["everything", "--config", "$PWD/$out/$name.json"], "env": {"MCPTRACK_SOCKET": "$MCPTRACK_SOCKET"}}}}
		JSON
		$out/mcptrack gateway --config "$out/$name-$era.json" --addr 127.0.0.1:$attach >"$out/$name-$era.log" 2>&1 &
		pids+=($!)
		listens $attach
		attached[$era]=http://127.0.0.1:$attach/mcp
	done
	if [[ $name == tasks ]]; then
		compare "$name" $next tasks "$url" "$through" "${attached[modern]}"
	elif [[ $name == skills ]]; then
		compare "$name" $next skills "$url" "$through" "${attached[modern]}"
		awk '$2 == 0 || $3 > 0 {bad = 1; print "  fails directly:", $1} END {exit bad}' "$out/skills-conformance-skills-direct.txt" || lost=1
		for way in "vault --stdio $out/vault" "gateway --stdio --config $out/skills.json"; do
			# shellcheck disable=SC2086 # the words are arguments
			"$node" testdata/peers/node_modules/@modelcontextprotocol/inspector/clients/cli/build/index.js \
				--method skills/list --verify --require-digests -- $out/mcptrack $way >"$out/skills-inspector.log" 2>&1 ||
				{ echo "  the Inspector does not verify the skills of: $way" && lost=1; }
		done
	else
		for version in 2025-06-18 2025-11-25; do
			compare "$name" $released $version "$url" "$through" "${attached[legacy]}"
		done
		for version in 2025-06-18 2025-11-25; do
			compare "$name" $next $version "$url" "$through" "${attached[legacy]}"
		done
		compare "$name" $next 2026-07-28 "$url" "$through" "${attached[modern]}"
	fi
	stop
done
exit $lost
