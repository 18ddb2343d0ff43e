#!/bin/bash
# Unpacks OpenZFS's own user-space tools (zdb, ztest, zstream) from Debian's packages into a folder, without
# installing them: the tests use them as an oracle. Prints the folder that holds the wrappers.
# usage: openzfs-tools.sh [PREFIX]        PREFIX defaults to target/openzfs
set -euo pipefail
prefix=${1:-target/openzfs}
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$prefix"; prefix=$(cd "$prefix" && pwd)
# zdb waits out seconds at its end; not so with a fast clock, where there is a compiler for it.
hasten() {
  clock="$prefix/run/zdb-clock.so"
  [ "$clock" -nt "$here/zdb-clock.c" ] && grep -q LD_PRELOAD "$prefix/run/zdb" && return
  if ${CC:-cc} -O2 -shared -fPIC -o "$clock" "$here/zdb-clock.c"; then
    grep -q LD_PRELOAD "$prefix/run/zdb" || sed -i "s|^LD_|LD_PRELOAD=$clock LD_|" "$prefix/run/zdb"
  else
    echo "openzfs-tools: no C compiler, zdb takes six seconds each time" >&2
  fi
}
if [ -x "$prefix/run/zdb" ]; then hasten; echo "$prefix/run"; exit 0; fi
command -v apt-get >/dev/null || { echo "openzfs-tools: needs apt-get (Debian)" >&2; exit 1; }
. /etc/os-release
# Debian 12 itself carries OpenZFS 2.1; 2.3 is in its backports.
suite=${VERSION_CODENAME}; [ "$suite" = bookworm ] && suite=bookworm-backports
mirror=$( { grep -rhE '^(URIs:|deb )' /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list 2>/dev/null || true; } | awk 'NR==1{print $2}')
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
mkdir -p "$work/lists/partial"
cat > "$work/openzfs.sources" <<EOF
Types: deb
URIs: $mirror
Suites: $suite
Components: main contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg
EOF
apt=(apt-get -qq -o Dir::Etc::sourceparts=/dev/null -o "Dir::Etc::sourcelist=$work/openzfs.sources"
     -o "Dir::State::Lists=$work/lists" -o APT::Sandbox::User=root)
"${apt[@]}" update
cd "$work"
for package in zfsutils-linux zfs-test libzpool6linux libzfs6linux libnvpair3linux libuutil3linux libzfsbootenv1linux; do
  "${apt[@]}" download "$package/$suite" || echo "openzfs-tools: no package $package" >&2
done
for package in ./*.deb; do dpkg -x "$package" "$prefix"; done
mkdir -p "$prefix/run"
libraries=$(find "$prefix" -name 'lib*.so*' -printf '%h\n' | sort -u | paste -sd:)
for tool in zdb ztest zstream zhack raidz_test; do
  binary=$(find "$prefix" -path "$prefix/run" -prune -o -type f -name "$tool" -perm -100 -print | head -1)
  [ -n "$binary" ] || continue
  printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$libraries" "$binary" > "$prefix/run/$tool"
  chmod +x "$prefix/run/$tool"
done
[ -x "$prefix/run/zdb" ] || { echo "openzfs-tools: zdb was not found in the packages" >&2; exit 1; }
hasten
echo "$prefix/run"
