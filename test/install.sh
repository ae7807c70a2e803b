#!/bin/sh
# Fetches everything that the tests need from the network, which they cannot reach themselves: the Go modules of this module and of deploy/test,
# and, into test/node_modules, the MCP clients, the servers and the conformance suite that the end-to-end tests run, with their Node.
# Versions and digests come from go.sum and package-lock.json. The script does nothing when all is in place.
set -eu
cd "$(dirname "$0")"

command -v go >/dev/null || { echo "test/install.sh: go is needed, see go.mod for the version" >&2; exit 1; }
command -v npm >/dev/null || { echo "test/install.sh: npm is needed (Debian: apt-get install nodejs npm)" >&2; exit 1; }

# A registry may fail once, so each download is tried three times; each failure is printed.
try() {
	tries=1
	until "$@"; do
		[ $tries -lt 3 ] || exit 1
		echo "test/install.sh: trying once more in $((tries * 10)) s" >&2
		sleep $((tries * 10))
		tries=$((tries + 1))
	done
}

# All modules, also those that no package here imports: the tests of the image run "go mod download" as deploy/Dockerfile does, without a network.
for module in .. ../deploy/test; do
	try go -C $module mod download
done

# Two runs at once would tear the folder from under each other.
mkdir -p ../.cache
exec 9>../.cache/install.lock
flock 9

want=$(cat package.json package-lock.json .npmrc | sha256sum | cut -d' ' -f1)
if [ "$(cat node_modules/.installed 2>/dev/null)" = "$want" ]; then
	exit 0
fi

# The installing npm may run on an older Node than the packages ask for: they run on the Node that is installed with them.
# That Node is an optional package, one for each kind of machine, and npm leaves it out silently when it cannot be fetched.
install() { npm ci --no-audit --no-fund --loglevel=error && ./node_modules/.bin/node --version >/dev/null; }
try install
echo "$want" >node_modules/.installed
