#!/usr/bin/env bash
# Fetches the archive of this machine, compares its checksum, and puts the program on the PATH of later steps.
#
#   STERNPOST_RELEASE      the version
#   STERNPOST_RELEASE_URL  where SHA256SUMS and the archives are
set -euo pipefail

case $(uname -s) in
Linux) system=linux ;;
Darwin) system=darwin ;;
*) echo "there is no archive for $(uname -s)" >&2; exit 1 ;;
esac
case $(uname -m) in
x86_64 | amd64) machine=amd64 ;;
aarch64 | arm64) machine=arm64 ;;
*) echo "there is no archive for $(uname -m)" >&2; exit 1 ;;
esac

name=sternpost-$STERNPOST_RELEASE-$system-$machine
folder=$RUNNER_TEMP/sternpost
mkdir -p "$folder"
cd "$folder"
curl --fail --silent --show-error --location --retry 3 -O "$STERNPOST_RELEASE_URL/SHA256SUMS" -O "$STERNPOST_RELEASE_URL/$name.tar.gz"
grep " $name.tar.gz\$" SHA256SUMS >wanted || { echo "SHA256SUMS does not name $name.tar.gz" >&2; exit 1; }
if command -v sha256sum >/dev/null; then sha256sum --check --quiet wanted; else shasum -a 256 --check wanted >/dev/null; fi
tar -xzf "$name.tar.gz"
echo "$folder/$name" >>"$GITHUB_PATH"
"$folder/$name/sternpost" version
