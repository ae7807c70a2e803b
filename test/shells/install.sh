#!/bin/sh
# Makes zsh and fish available to the tests of completions: unpacks Debian's packages into .cache/shells. The machine itself is not changed.
set -eu
cd "$(dirname "$0")/../.."

[ -e .cache/shells/usr/bin/fish ] && exit 0
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
	echo "test/shells/install.sh: this is not Debian: the tests in test/shells need its packages of zsh and fish" >&2
	exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
packages="zsh zsh-common fish fish-common libpcre2-32-0"
if ! (cd "$work" && { apt-get -q download $packages || { apt-get -q update && apt-get -q download $packages; }; } && for p in *.deb; do dpkg-deb -x "$p" shells; done) >"$work/log" 2>&1; then
	cat "$work/log" >&2
	echo "test/shells/install.sh: Debian's zsh and fish cannot be downloaded" >&2
	exit 1
fi
mkdir -p .cache
rm -rf .cache/shells
mv "$work/shells" .cache/shells
