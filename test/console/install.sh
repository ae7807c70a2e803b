#!/bin/sh
# Makes Chromium available to the tests of the console: installs Debian's package where there is no chromium.
set -eu
command -v chromium >/dev/null && exit 0
command -v apt-get >/dev/null || {
	echo "test/console/install.sh: this is not Debian: install a program chromium" >&2
	exit 1
}
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install -y --no-install-recommends chromium fonts-dejavu-core >/dev/null
