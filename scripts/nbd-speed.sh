#!/bin/bash
# A volume that Millpond serves by NBD beside a raw file that qemu-nbd serves from the same disk: fio's random reads
# and writes of 4 KB, and reads and writes of 128 KB in sequence, over Unix sockets.
#
#   nbd-speed.sh MILLPOND WORKDIR [MEGABYTES [TURNS [SECONDS [BLOCK]]]]
#
# Needs four times MEGABYTES (1024) in WORKDIR, root, fio with the engine `nbd`, and qemu-nbd. The volume has blocks of
# BLOCK (16K, the default of volumes). MB a second, the sum of reads and writes, one line a turn.
set -eu
M=$(realpath "$1") W=$(realpath "$2") SIZE=${3:-1024} TURNS=${4:-3} SECONDS_EACH=${5:-10} BLOCK=${6:-16K}
export MILLPOND_RUN=$W/run
servers=()
clean() {
    [ ${#servers[@]} = 0 ] || kill "${servers[@]}" 2> /dev/null || true
    "$M" zpool export -f volumes 2> /dev/null || true
    rm -rf "$W"/volumes.img "$W"/raw.img "$W"/*.socket "$W/run" "$W/fio.json"
}
trap clean EXIT
"$M" zpool create -f --size $((SIZE * 3))M -O mountpoint=none volumes "$W/volumes.img"
"$M" zfs create -s -b "$BLOCK" -V "${SIZE}M" volumes/disk
"$M" nbd --socket "$W/millpond.socket" volumes/disk > /dev/null &
servers+=($!)
truncate -s "${SIZE}M" "$W/raw.img"
qemu-nbd -t -e 8 -f raw -k "$W/qemu.socket" "$W/raw.img" &
servers+=($!)
until [ -S "$W/millpond.socket" ] && [ -S "$W/qemu.socket" ]; do sleep 0.1; done
uri() { case $1 in millpond) echo "nbd+unix:///volumes/disk?socket=$W/millpond.socket" ;; qemu) echo "nbd+unix:///?socket=$W/qemu.socket" ;; esac; }
# A job of fio on one of the servers: its MB a second.
job() {
    local server=$1
    shift
    fio --name=job --ioengine=nbd --uri="$(uri "$server")" --iodepth=16 --refill_buffers --buffer_compress_percentage=50 \
        --output-format=json --output="$W/fio.json" "$@" > /dev/null
    python3 -c 'import json, sys
job = json.load(open(sys.argv[1]))["jobs"][0]
print(round(sum(job[kind]["bw_bytes"] for kind in ("read", "write")) / 1e6))' "$W/fio.json"
}
for turn in $(seq "$TURNS"); do
    for server in millpond qemu; do
        echo "$server: sequential write $(job $server --rw=write --bs=128k --size="${SIZE}M" --end_fsync=1)," \
            "sequential read $(job $server --rw=read --bs=128k --size="${SIZE}M")," \
            "random 4 KB $(job $server --rw=randrw --bs=4k --size="${SIZE}M" --time_based --runtime="$SECONDS_EACH") MB/s"
    done
done
