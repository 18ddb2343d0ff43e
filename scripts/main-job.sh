#!/bin/bash
# The main job on a pool file in a temporary folder: create, write, snapshot, change, roll back, export,
# verify, import again. Says what it does; leaves nothing behind. Needs /dev/fuse; needs no root.
set -euo pipefail
cd "$(dirname "$0")/.."
# Not quietly: the first build takes minutes.
cargo build --release -p millpond
millpond=${CARGO_TARGET_DIR:-target}/release/millpond
case $millpond in /*) ;; *) millpond=$PWD/$millpond;; esac
work=$(mktemp -d); pool=tank$$
finish() { "$millpond" zpool export "$pool" 2>/dev/null || true; rm -rf "$work"; }
trap finish EXIT
say() { printf '\n# %s\n' "$*"; }
run() { printf '$ %s\n' "$*" | sed "s|$millpond|millpond|g; s|$work|…|g"; "$@"; }

say "a pool in a file of 512 MB, mounted below a folder of ours"
run "$millpond" zpool create --size 512M -R "$work/alt" -O compression=zstd "$pool" "$work/tank.img"
run "$millpond" zpool status "$pool"
say "copy this project's sources into it, and take a snapshot"
run cp -a crates docs Cargo.toml "$work/alt/$pool/"
run "$millpond" zfs snapshot "$pool@before"
before=$(cd "$work/alt/$pool" && find . -type f -exec sha256sum {} + | sort | sha256sum)
say "damage the files, then roll back"
rm -rf "$work/alt/$pool/crates"; echo broken > "$work/alt/$pool/Cargo.toml"
run ls -la "$work/alt/$pool"
run "$millpond" zfs rollback "$pool@before"
after=$(cd "$work/alt/$pool" && find . -type f -exec sha256sum {} + | sort | sha256sum)
[ "$before" = "$after" ] || { echo "the files are not what they were"; exit 1; }
echo "every file is as it was before"
run "$millpond" zfs list -r -t all -o name,used,referenced,compressratio,mountpoint "$pool"
say "export it; read every block back and check it"
run "$millpond" zpool export "$pool"
run "$millpond" inspect --verify "$work/tank.img"
say "import it again, and look into the image without importing"
run "$millpond" zpool import -d "$work" -R "$work/alt" "$pool"
run ls "$work/alt/$pool"
run "$millpond" zpool export "$pool"
run "$millpond" ls "$work/tank.img:$pool@before/"
if [ -n "${MILLPOND_ZDB:-}" ]; then
  say "what OpenZFS's zdb says of it"
  "$MILLPOND_ZDB" -e -p "$work" -bcc "$pool" | grep -E 'leak|errors' || exit 1
fi
say "done"
