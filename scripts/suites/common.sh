# Sourced by the suites: a folder with a pool of its own, whose server is ours, and its end.
# Needs MILLPOND_BIN (cargo xtask suites sets it), /dev/fuse and root.

set -euo pipefail
: "${MILLPOND_BIN:?is not set; run by 'cargo xtask suites'}"
[ "$(id -u)" = 0 ] || { echo "skipped: only root can mount for other users and become them"; exit 0; }
[ -c /dev/fuse ] || { echo "skipped: there is no /dev/fuse here"; exit 0; }

work=$(mktemp -d /tmp/suite.XXXXXX)
chmod 755 "$work"
mkdir "$work/mounts" "$work/run"
export MILLPOND_RUN="$work/run"
pool=suite

millpond() { "$MILLPOND_BIN" "$@"; }

finish() {
  local status=${1:-$?}
  trap - EXIT
  cd /
  millpond zpool export -f "$pool" >/dev/null 2>&1 || true
  if [ "$status" = 0 ] && [ -z "${KEEP:-}" ]; then rm -rf "$work"; else echo "kept: $work"; fi
  exit "$status"
}
trap finish EXIT

# make_pool SIZE [OPTIONS…]: mounted at $mount.
# Socket addresses, which some suites bind in it, have room for 108 bytes: paths are short.
make_pool() {
  local size=$1; shift
  millpond zpool create --size "$size" -R "$work/mounts" "$@" "$pool" "$work/$pool.img"
  mount="$work/mounts/$pool"
}

# Exports the pool and has every block of it read.
verify_pool() {
  millpond zpool export "$pool"
  millpond inspect --verify "$work/$pool.img" | tail -1
  if [ -x "${MILLPOND_ZDB:-}" ]; then "$MILLPOND_ZDB" -e -p "$work" -bcc -y "$pool" >"$work/zdb.out" 2>&1; fi
}

# need COMMAND PACKAGE: or the suite is skipped.
need() {
  command -v "$1" >/dev/null || { echo "skipped: there is no $1 here (package $2)"; exit 0; }
}
