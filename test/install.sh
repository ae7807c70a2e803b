#!/bin/sh
# Installs the MCP clients, servers and the conformance suite that the end-to-end tests run, with the Node that they need, into
# test/node_modules. Versions and digests come from package-lock.json; nothing is done when they are in place already.
set -eu
cd "$(dirname "$0")"

command -v npm >/dev/null || { echo "test/install.sh: npm is needed (Debian: apt-get install nodejs npm)" >&2; exit 1; }

# Two runs at once would tear the folder from under each other.
mkdir -p ../.cache
exec 9>../.cache/install.lock
flock 9

want=$(cat package.json package-lock.json .npmrc | sha256sum | cut -d' ' -f1)
if [ "$(cat node_modules/.installed 2>/dev/null)" = "$want" ]; then
	exit 0
fi

# The installing npm may run on an older Node than the packages ask for: they run on the Node that is installed with them.
# Node is an optional package of theirs, one for each kind of machine, which npm leaves out without a word when it cannot be fetched. A registry may
# fail once; whatever is wrong is said each time.
install() { npm ci --no-audit --no-fund --loglevel=error && ./node_modules/.bin/node --version >/dev/null; }
tries=1
until install; do
	[ $tries -lt 3 ] || exit 1
	echo "test/install.sh: trying once more in $((tries * 10)) s" >&2
	sleep $((tries * 10))
	tries=$((tries + 1))
done
echo "$want" >node_modules/.installed
