#!/usr/bin/env bash
# Builds a release from a clean clone of HEAD: archives, deb, rpm and apk packages, SBOMs, checksums,
# manifests of package managers, the container image, npm packages, MCP bundles and entries of the MCP
# registry. It downloads nothing but Go modules. The image needs GNU tar and Debian's ca-certificates. Nothing
# is signed or published without -publish, which .github/workflows/release.yml uses.
# usage: scripts/package.sh [-publish] [DIR [VERSION]]
# DIR is .cache/dist by default, and replaced. VERSION is the tag of HEAD, else v0.0.0-COMMIT.
set -euo pipefail
cd "$(dirname "$0")/.."

publish=
if [[ ${1-} == -publish ]]; then
	publish=1
	shift
fi
if (($# > 2)) || [[ ${1-} == -* ]]; then
	echo "usage: scripts/package.sh [-publish] [DIR [VERSION]]" >&2
	exit 2
fi
dir=${1:-.cache/dist}
version=${2:-$(git describe --tags --exact-match --match 'v[0-9]*' 2>/dev/null || git log -1 --format=v0.0.0-g%h --abbrev=12)}
[[ -z $(git status --porcelain --untracked-files=no) ]] || echo 'warning: changes that are not committed are not in the release' >&2
mkdir -p .cache/bin
bin=$PWD/.cache/bin
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

# Compilers use more memory, and a fifth less time.
export GOGC=300

began=$SECONDS
step() {
	printf -- '-- %s: %ds\n' "$1" $((SECONDS - began))
	began=$SECONDS
}

# Its many dependencies would only slow down the other tools.
go build -modfile=scripts/goreleaser.mod -o "$bin/" \
	github.com/goreleaser/goreleaser/v2 github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod github.com/google/go-containerregistry/cmd/crane
step tools

git clone -q --no-hardlinks . "$tmp/mcptrack"
cd "$tmp/mcptrack"
git show-ref --verify -q "refs/tags/$version" || git tag "$version"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH GORELEASER_CURRENT_TAG=$version
# As in .goreleaser.yaml, so that what is compiled for the man pages is also used there.
CGO_ENABLED=0 GOFLAGS=-trimpath bash scripts/man.sh .cache/man
mkdir -p .cache/man.gz
for page in .cache/man/*; do gzip -9n <"$page" >".cache/man.gz/${page##*/}.gz"; done
step 'man pages'

# One task at a time, because an archive has its programs in the order in which they were built.
options=(--clean --parallelism 1)
[[ -n $publish ]] || options+=(--skip=publish --skip=announce --skip=sign)
PATH=$bin:$PATH goreleaser release "${options[@]}"
step goreleaser

bash scripts/image.sh .cache/dist "$version" "$(git rev-parse HEAD)" >.cache/dist/image.digest
if [[ -n $publish ]]; then
	tags=("${version#v}")
	[[ $version == *-* ]] || tags+=(latest)
	for tag in "${tags[@]}"; do "$bin/crane" push .cache/dist/image "ghcr.io/mcptrack/mcptrack:$tag"; done
fi
step image
bash scripts/bundles.sh .cache/dist "$version" .cache/dist
step 'npm packages and bundles'

cd "$OLDPWD"
rm -rf "$dir"
mkdir -p "$(dirname "$dir")"
mv "$tmp/mcptrack/.cache/dist" "$dir"
printf '%s %s\n' "$version" "$dir"
