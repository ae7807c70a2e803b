#!/bin/sh
# Makes redis-server, redis-cli and haproxy available to the tests of several replicas: unpacks Debian's packages, and the libraries that they need,
# into .cache/replicas. The machine itself is not changed, and no service is started.
set -eu
cd "$(dirname "$0")/../.."

[ -e .cache/replicas/bin/haproxy ] && exit 0
command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || {
	echo "test/replicas/install.sh: this is not Debian: the tests of replicas need its packages of redis-server and haproxy" >&2
	exit 1
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
packages="redis-server redis-tools haproxy libatomic1 libjemalloc2 liblzf1 libssl3 libsystemd0 libcap2 libgcrypt20 libgpg-error0 liblz4-1 liblzma5
libzstd1 libstdc++6 libgcc-s1 liblua5.3-0 libopentracing-c-wrapper0 libopentracing1 libpcre2-8-0"
if ! (cd "$work" && { apt-get -q download $packages || { apt-get -q update && apt-get -q download $packages; }; } && for p in *.deb; do dpkg-deb -x "$p" replicas; done) >"$work/log" 2>&1; then
	cat "$work/log" >&2
	echo "test/replicas/install.sh: Debian's redis-server and haproxy cannot be downloaded" >&2
	exit 1
fi
# The programs run with the libraries that came with them.
mkdir -p "$work/replicas/bin"
for program in usr/bin/redis-server usr/bin/redis-cli usr/sbin/haproxy; do
	cat >"$work/replicas/bin/$(basename $program)" <<'END'
#!/bin/sh
here=$(cd "$(dirname "$0")/.." && pwd)
for libraries in "$here"/usr/lib/*-linux-gnu "$here"/lib/*-linux-gnu; do LD_LIBRARY_PATH=$libraries${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}; done
export LD_LIBRARY_PATH
END
	echo "exec \"\$here/$program\" \"\$@\"" >>"$work/replicas/bin/$(basename $program)"
	chmod 755 "$work/replicas/bin/$(basename $program)"
done
"$work/replicas/bin/redis-server" --version >/dev/null
"$work/replicas/bin/haproxy" -v >/dev/null
mkdir -p .cache
rm -rf .cache/replicas
mv "$work/replicas" .cache/replicas
