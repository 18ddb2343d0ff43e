#!/bin/bash
# A Rust program of some thirty crates, compiled on a mount and beside it: the same binary, and nothing to do a second
# time. compile.sh [CRATE VERSION [BINARY]]
. "$(dirname "$0")/common.sh"
crate=${1:-ripgrep}
version=${2:-14.1.1}
binary=${3:-rg}
need cargo rust
need unshare util-linux
# Cargo brings the crate; its own list of dependencies says which else.
mkdir -p "$work/fetch/src"
touch "$work/fetch/src/lib.rs"
printf '[package]\nname = "fetch"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n%s = "=%s"\n' "$crate" "$version" \
  >"$work/fetch/Cargo.toml"
unset CARGO_TARGET_DIR
cargo vendor -q --manifest-path "$work/fetch/Cargo.toml" "$work/fetch/vendor" >/dev/null 2>"$work/out" \
  || { tail -3 "$work/out"; echo "skipped: the crate cannot be fetched (crates.io)"; exit 0; }
source=$(ls -d "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*/"$crate-$version" | head -1)
make_pool 4G -O compression=lz4
mkdir "$work/host" "$work/project"
cp -r "$source" "$work/host/project"
(cd "$work/host/project" && mkdir -p .cargo && cargo vendor -q --locked >.cargo/config.toml 2>"$work/out")
cp -a "$work/host/project" "$mount/project"
# Binaries name the paths of their sources: both are built at one path, each in a namespace of its own.
build() {
  unshare --mount bash -ec 'mount --bind "$1" "$2"; cd "$2"; cargo build --release --locked --offline' \
    build "$1" "$work/project" >"$work/out" 2>&1 || { tail -30 "$work/out"; echo "FAILED: $1"; exit 1; }
}
for place in "$work/host/project" "$mount/project"; do
  start=$(date +%s%N)
  build "$place"
  echo "$(grep -c Compiling "$work/out") crates in $((($(date +%s%N) - start) / 1000000)) ms: ${place#"$work/"}"
done
build "$mount/project"
! grep Compiling "$work/out" || { echo "FAILED: compiled again"; exit 1; }
cmp "$work/host/project/target/release/$binary" "$mount/project/target/release/$binary"
"$mount/project/target/release/$binary" --version | head -1
millpond zpool export "$pool"
millpond zpool import -d "$work" -R "$work/mounts" "$pool"
cmp "$work/host/project/target/release/$binary" "$mount/project/target/release/$binary"
build "$mount/project"
! grep Compiling "$work/out" || { echo "FAILED: compiled again after an import"; exit 1; }
verify_pool
echo "$crate $version: the same binary"
