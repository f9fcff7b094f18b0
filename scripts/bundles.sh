#!/usr/bin/env bash
# Packs the programs for npm, Claude Desktop (.mcpb) and the MCP registry into DIR: npm/*.tgz,
# mcpb/*.mcpb and registry/*.json. It needs neither npm nor a network.
# usage: scripts/bundles.sh [-host] DIR [VERSION [RELEASE]]
# VERSION is the tag of HEAD, else v0.0.0-COMMIT. The programs come from the archives in the folder
# RELEASE, which scripts/package.sh makes; without it they are compiled. -host packs only the programs for
# this machine.
set -euo pipefail

host=
if [[ ${1-} == -host ]]; then
	host=1
	shift
fi
if (($# < 1 || $# > 3)) || [[ $1 == -* ]]; then
	echo "usage: scripts/bundles.sh [-host] DIR [VERSION [RELEASE]]" >&2
	exit 2
fi
mkdir -p "$1"
dir=$(cd "$1" && pwd)
release=
[[ -z ${3-} ]] || release=$(cd "$3" && pwd)
cd "$(dirname "$0")/.."
version=${2:-$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null || git log -1 --format=v0.0.0-g%h --abbrev=12)}
platforms=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64)
[[ -z $host ]] || platforms=("$(go env GOHOSTOS)/$(go env GOHOSTARCH)")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

folders=()
for platform in "${platforms[@]}"; do
	os=${platform%/*} arch=${platform#*/}
	to=$tmp/$os-$arch
	mkdir "$to"
	if [[ -z $release ]]; then
		# As in .goreleaser.yaml.
		CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -trimpath -ldflags '-s -w' -o "$to/" ./cmd/mcptrack ./cmd/mcptrack-attach
	elif [[ $os == windows ]]; then
		to=$release/mcptrack_${os}_$arch.zip
	else
		tar -xzf "$release/mcptrack_${os}_$arch.tar.gz" -C "$to" --strip-components=1
	fi
	folders+=("$platform=$to")
done
go run ./scripts/bundles -version "$version" "$dir" "${folders[@]}"
