#!/bin/bash
# fsx (the crate): random writes, mappings, holes, truncation, copies, each read back; files compared over an export and
# an import. fsx.sh [SEEDS [OPERATIONS]]; with FSX=PATH the C program of LTP or xfstests too, with O_DIRECT and AIO.
. "$(dirname "$0")/common.sh"
seeds=${1:-3}
operations=${2:-3000}
here=$(cd "$(dirname "$0")" && pwd)
tools="${CARGO_TARGET_DIR:-$here/../../target}/suites"
need cargo rust
if ! [ -x "$tools/bin/fsx" ]; then
  cargo install --quiet --locked --root "$tools" --target-dir "$tools/build" --version 0.3.2 fsx \
    || { echo "skipped: fsx cannot be installed (crates.io)"; exit 0; }
fi
cat >"$work/fsx.toml" <<TOML
flen = 1048576
[weights]
close_open = 5
invalidate = 5
mapread = 10
mapwrite = 10
read = 10
write = 15
truncate = 10
fsync = 1
fdatasync = 1
posix_fallocate = 5
punch_hole = 10
sendfile = 3
posix_fadvise = 1
copy_file_range = 10
TOML
make_pool 2G -O compression=lz4
one() {
  local name=$1; shift
  "$@" >"$work/out" 2>&1 || { tail -50 "$work/out"; echo "FAILED: $name: $*"; exit 1; }
}
runs=0
for size in 512 4K 128K 1M; do
  millpond zfs create -o "recordsize=$size" "$pool/r$size"
  folder="$mount/r$size"
  for seed in $(seq "$seeds"); do
    one fsx "$tools/bin/fsx" -q -f "$work/fsx.toml" -N "$operations" -S "$seed" -P "$work" "$folder/a$seed"
    runs=$((runs + 1))
    [ -n "${FSX:-}" ] || continue
    one buffered "$FSX" -q -N "$operations" -c 50 -l 600000 -S "$seed" -P "$work" "$folder/b$seed"
    one flushed "$FSX" -q -N "$operations" -X -f -e 1 -l 300000 -o 50000 -S "$seed" -P "$work" "$folder/e$seed"
    one direct "$FSX" -q -N "$operations" -Z -R -W -r 512 -w 512 -t 512 -l 600000 -o 128000 -S "$seed" -P "$work" "$folder/c$seed"
    one aio "$FSX" -q -N "$operations" -A -y -l 600000 -S "$seed" -P "$work" "$folder/d$seed"
    runs=$((runs + 4))
  done
done
(cd "$mount" && find . -type f -print0 | sort -z | xargs -0 sha256sum) >"$work/before"
millpond zpool export "$pool"
millpond zpool import -d "$work" -R "$work/mounts" "$pool"
(cd "$mount" && sha256sum --quiet -c "$work/before")
verify_pool
echo "$runs runs of $operations operations: no difference"
