#!/bin/sh
# many-mounts.sh MILLPOND DIRECTORY COUNT: a pool of COUNT file systems in an image below DIRECTORY: how long its import
# and export take, and what its daemon needs with all of them mounted. DIRECTORY/many.img is used again if it is there.
set -eu
millpond=$1 directory=$2 count=$3
export MILLPOND_RUN="$directory/run"
image="$directory/many.img"
mkdir -p "$directory/run" "$directory/mnt"
if [ ! -e "$image" ]; then
    "$millpond" zpool create --size 4G -R "$directory/mnt" many "$image"
    for number in $(seq "$count"); do "$millpond" zfs create -u "many/f$number"; done
    "$millpond" zpool export many
fi
seconds() { date +%s.%N; }
since() { echo "$(seconds) $1" | awk '{ printf "%.2f s\n", $1 - $2 }'; }
needs() {
    daemon=$(pgrep -f '^millpond: many( |$)' | head -n 1)
    awk -v what="$1" '/^VmRSS|^Threads/ { line = line " " $1 " " $2 } END { print what ":" line }' "/proc/$daemon/status"
}
begun=$(seconds)
"$millpond" zpool import -d "$directory" -R "$directory/mnt" many
echo "import: $(since "$begun") ($(grep -c "^many" /proc/mounts) mounted)"
needs "imported"
begun=$(seconds)
df "$directory"/mnt/many/* > "$directory/df.txt"
echo "df of all: $(since "$begun")"
needs "after df"
sleep 15
needs "15 s later"
begun=$(seconds)
"$millpond" zpool export many
echo "export: $(since "$begun")"
