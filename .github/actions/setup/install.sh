#!/usr/bin/env bash
# Downloads the release VERSION for this runner, compares it with the checksums of the release, and adds
# it to PATH.
set -euo pipefail

fail() {
	echo "::error title=mcptrack setup::$1"
	exit "${2-1}"
}

releases=https://github.com/mcptrack/mcptrack/releases
if [[ $VERSION == latest ]]; then
	from=$releases/latest/download
elif [[ $VERSION =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]]; then
	from=$releases/download/$VERSION
else
	fail 'The input version is latest, or a tag such as v1.2.3.' 2
fi
case $RUNNER_OS in
Linux) os=linux kind=tar.gz ;;
macOS) os=darwin kind=tar.gz ;;
Windows) os=windows kind=zip ;;
*) fail "There is no mcptrack for $RUNNER_OS." ;;
esac
case $RUNNER_ARCH in
X64) arch=amd64 ;;
ARM64) arch=arm64 ;;
*) fail "There is no mcptrack for $RUNNER_ARCH." ;;
esac
file=mcptrack_${os}_$arch.$kind

folder=$(mktemp -d "$RUNNER_TEMP/mcptrack.XXXXXX")
cd "$folder"
for part in checksums.txt "$file"; do
	curl -fsSL --proto =https --retry 3 -o "$part" "$from/$part" || fail "$from/$part could not be downloaded; is there such a release?"
done
awk -v file="$file" '$2 == file' checksums.txt >expected
[[ -s expected ]] || fail "checksums.txt of the release does not contain $file."
if command -v sha256sum >/dev/null; then
	sum=(sha256sum)
else
	sum=(shasum -a 256) # macOS
fi
"${sum[@]}" -c expected || fail "$file is not the file of the release: its checksum differs."

if [[ $kind == zip ]]; then
	unzip -q "$file"
else
	tar -xzf "$file"
fi
bin=$folder/mcptrack-release
installed=$("$bin/mcptrack" version -o name) || fail 'The downloaded mcptrack does not start.'
if [[ $os == windows ]]; then bin=$(cygpath -w "$bin"); fi
echo "$bin" >>"$GITHUB_PATH"
echo "version=$installed" >>"$GITHUB_OUTPUT"
echo "mcptrack $installed"
