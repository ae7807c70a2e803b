#!/bin/sh
# Downloads everything that the tests need, because the tests themselves have no network: the Go modules of this module, deploy/test,
# deploy/dist, bench/tokens and test/traces/collector; into test/node_modules, the MCP clients, the servers and the conformance suite of the end-to-end tests, with their Node;
# into test/hosts/node_modules, hosts; into test/console/node_modules, axe; Chromium, nginx, shells, Redis and HAProxy.
# Versions and digests come from go.sum and package-lock.json. The script does nothing if everything is installed.
set -eu
cd "$(dirname "$0")"

command -v go >/dev/null || { echo "test/install.sh: go is needed, see go.mod for the version" >&2; exit 1; }
command -v npm >/dev/null || { echo "test/install.sh: npm is needed (Debian: apt-get install nodejs npm)" >&2; exit 1; }

# Each download is tried three times, because a registry may fail. Each failure is printed.
try() {
	tries=1
	until "$@"; do
		[ $tries -lt 3 ] || exit 1
		echo "test/install.sh: trying again in $((tries * 10)) s" >&2
		sleep $((tries * 10))
		tries=$((tries + 1))
	done
}

# All modules are needed: the tests of the image run "go mod download" like deploy/Dockerfile, but without a network.
for module in .. ../deploy/test ../deploy/dist ../bench/tokens traces/collector; do
	try go -C $module mod download
done

# The tests of ./bench compare with nginx.
try ../bench/nginx.sh

# The tests of completions source them in bash, zsh and fish.
try shells/install.sh

# The tests of several replicas need a store and a balancer.
try replicas/install.sh

# The tests of the console look at it with a browser.
try console/install.sh

# Two concurrent runs would overwrite the same folder.
mkdir -p ../.cache
exec 9>../.cache/install.lock
flock 9

# install installs the packages of this folder, unless that is done, and then runs a command that checks them.
install() {
	want=$(cat package.json package-lock.json .npmrc | sha256sum | cut -d' ' -f1)
	if [ "$(cat node_modules/.installed 2>/dev/null)" = "$want" ]; then
		return
	fi
	complete() { npm ci --no-audit --no-fund --loglevel=error && "$@" >/dev/null; }
	try complete "$@"
	echo "$want" >node_modules/.installed
}

# The machine's npm may run on an older Node than the packages require: the packages run on the Node that is installed with them.
# That Node is an optional package for each platform, which npm skips silently if the download fails.
install ./node_modules/.bin/node --version
# The hosts are large and have no packages in common with the others.
cd hosts
install test -e node_modules/@openai/codex
cd ../console
install test -e node_modules/axe-core/axe.min.js
