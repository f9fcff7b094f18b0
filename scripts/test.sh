#!/usr/bin/env bash
# The loop while you write code: the small tests, which need only Go. scripts/check.sh runs all tests.
# usage: scripts/test.sh [all | PACKAGE...]
# Without arguments it tests the packages that the working tree changes, and those that depend on
# them; all tests every package.
set -euo pipefail
cd "$(dirname "$0")/.."
umask 022 # mcptrack refuses what others may write, also in the temporary folders of tests

# Prints the packages with a changed file, and those whose code or tests import them. A file in a folder
# without code counts for the package above it.
changed() {
	local file dir=.
	{ git diff --name-only HEAD && git ls-files --others --exclude-standard; } |
		while read -r file; do
			case $file in
			go.mod | go.sum) go list ./... ;;
			README.md | testdata/* | completions/*) dir=cmd/mcptrack ;;
			*) dir=$(dirname "$file") ;;
			esac
			while [[ $dir != . ]] && ! compgen -G "$dir/*.go" >/dev/null; do dir=$(dirname "$dir"); done
			[[ $dir == . ]] || echo "$(go list -m)/$dir"
		done | sort -u >"$tmp"
	# The test program of P is listed as P.test, with all packages that it consists of.
	go list -test -f '{{.ImportPath}}{{range .Deps}} {{.}}{{end}}' ./... | awk '
		NR == FNR { changed[$1]; next }
		sub(/\.test$/, "", $1) { for (i = 1; i <= NF; i++) if ($i in changed) { print $1; next } }' "$tmp" -
}

packages=()
tmp=$(mktemp)
trap 'rm -f "$tmp"' EXIT
case ${1-} in
-*)
	echo "usage: scripts/test.sh [all | PACKAGE...], for example scripts/test.sh ./core/tracker/..." >&2
	exit 2
	;;
'')
	mapfile -t packages < <(changed)
	if ((${#packages[@]} == 0)); then
		echo 'nothing is changed; scripts/test.sh all tests everything'
		exit
	fi
	;;
all) packages=(./...) ;;
*) packages=("$@") ;;
esac
go test -short -skip '^TestReal' -parallel 8 "${packages[@]}"
