#!/bin/bash
# pjdfstest (the crate) on a mount, without and with POSIX access lists, extended attributes in either form.
. "$(dirname "$0")/common.sh"
need cargo rust
here=$(cd "$(dirname "$0")" && pwd)
tools="${CARGO_TARGET_DIR:-$here/../../target}/suites"
if ! [ -x "$tools/bin/pjdfstest" ]; then
  [ "${1:-}" != --installed ] || { echo "skipped: 'cargo xtask suites pjdfstest' installs it"; exit 0; }
  cargo install --quiet --locked --root "$tools" --target-dir "$tools/build" --version 0.2.2 pjdfstest \
    || { echo "skipped: pjdfstest cannot be installed (crates.io, package libacl1-dev)"; exit 0; }
fi
# Two users that own nothing, whatever this machine calls them.
users=$(getent passwd | awk -F: '$3 > 0 && $1 != "sync" { print $1 }' | head -40)
entries=
for user in $users; do
  [ "$(grep -o '\[' <<<"$entries" | wc -l)" -lt 2 ] || break
  group=$(id -gn "$user" 2>/dev/null) || continue
  entries="$entries[\"$user\", \"$group\"],"
done
cat >"$work/pjdfstest.toml" <<TOML
[features]
posix_fallocate = {}
utimensat = {}
utime_now = {}
rename_ctime = {}
[settings]
naptime = 0.01
allow_remount = true
[dummy_auth]
entries = [${entries%,}]
TOML
# mount(8) would give a remount of a FUSE file system to a helper.
mkdir "$work/bin"
printf '#!/bin/sh\nexec %s -i "$@"\n' "$(command -v mount)" >"$work/bin/mount"
chmod 755 "$work/bin/mount"
export PATH="$work/bin:$PATH"

make_pool 2G
millpond zfs create -o acltype=posix -o xattr=sa "$pool/acl"
millpond zfs create -o acltype=posix -o xattr=dir "$pool/dirs"
run() { "$tools/bin/pjdfstest" -c "$work/pjdfstest.toml" -s /dev/shm "$@" >"$work/out" 2>&1 || true; }
faults=0
for folder in "$mount" "$mount/acl" "$mount/dirs"; do
  run -p "$folder"
  grep '^Summary' "$work/out" || { cat "$work/out"; exit 1; }
  # What fails among all others runs once more by itself: the suite leaves files open, so that a later test cannot
  # remount read-only (on ext4 as well).
  grep FAILED "$work/out" | awk '{ print $1 }' >"$work/failed" || true
  if [ -s "$work/failed" ]; then
    mapfile -t again < <(sed 's/.*::\(erofs\).*/\1/' "$work/failed" | sort -u)
    run -p "$folder" "${again[@]}"
    sed 's/^Summary/  by themselves/' "$work/out" | grep 'by themselves'
    if grep FAILED "$work/out"; then faults=1; fi
  fi
done
verify_pool
exit "$faults"
