#!/bin/bash
# What replication-tools.sh does, between Millpond and the kernel module of OpenZFS: each is the source once. One of them is here, the other one behind
# an `ssh` that runs what it is given on this machine, with the other one's zfs and zpool. Files and the newest snapshots are compared, and both pools
# are scrubbed by who has them and then by the other one.
# usage: replication-tools-with-openzfs.sh [--openzfs-here] [--both] MILLPOND [DIRECTORY]      as root, on a machine that has the module and Millpond
#   --openzfs-here   the tools run beside OpenZFS, and Millpond is behind ssh (default: the other way around)
#   --both           Millpond is both, to try this script
# DIRECTORY has the tools, or gets them (default: target/replication-tools). Needs 1 GB in $TMPDIR. The last line says how much was wrong, and so does
# the exit status.
set -uo pipefail
is_openzfs_here=''; is_millpond_both=''
while [[ ${1:-} == --* ]]; do
  case $1 in
    --openzfs-here) is_openzfs_here=yes ;;
    --both) is_millpond_both=yes ;;
    *) break ;;
  esac
  shift
done
[ $# -ge 1 ] && [[ $1 != --* ]] || { sed -n '2,10s/^# //p' "$0"; exit 2; }
millpond=$(realpath "$1"); tools=$(realpath -m "${2:-target/replication-tools}"); scripts=$(realpath "$(dirname "$0")")
. "$scripts/replication-cases.sh"
[ "$(id -u)" = 0 ] && [ -e /dev/fuse ] || { echo "skipped: needs root and /dev/fuse"; exit 0; }
[ -n "$is_millpond_both" ] || [ -e /sys/module/zfs ] || { echo "skipped: the module is not loaded"; exit 0; }
folder=$(mktemp -d); cd "$folder" || exit 1
end() { destroy_pools; rm -rf --one-file-system "$folder"; }
trap end EXIT
export HOME=$folder XDG_RUNTIME_DIR=$folder MILLPOND_RUN=$folder/run
make_millponds_side "$folder/millpond"
if [ -n "$is_millpond_both" ]; then make_millponds_side "$folder/openzfs"; else make_side "$folder/openzfs" "$(command -v zfs)" "$(command -v zpool)"; fi
fetch_tools "$tools" || true
here=$folder/millpond; export THERE=$folder/openzfs
[ -z "$is_openzfs_here" ] || { here=$folder/openzfs; THERE=$folder/millpond; }
# As much of ssh as the tools need. Options may follow the host, as there; `-O` asks about a connection that is kept.
cat > bin/ssh << 'SSH'
#!/bin/bash
host=
while [ $# -gt 0 ]; do
  case $1 in
    -O*) exit 0 ;;
    -[bcDEeFIiJLlmopQRSWw]) shift ;;
    -*) ;;
    *) [ -z "$host" ] || break; host=$1 ;;
  esac
  shift
done
PATH=$THERE:$PATH exec /bin/sh -c "$*"
SSH
chmod +x bin/ssh

by() { PATH=$by:$PATH "$@"; }
# Each has the other one's pool scrubbed, too.
exchange() {
  local pool other
  for pool in source destination; do
    other=$([ $pool = source ] && echo destination || echo source)
    by=${side[$other]}
    must of_$pool zpool export $pool
    must by zpool import -N -d "$PWD/$pool.img" $pool; scrub by $pool
    must by zpool destroy $pool
  done
}
for source in millpond openzfs; do
  destination=$([ $source = millpond ] && echo openzfs || echo millpond)
  side=([source]=$folder/$source [destination]=$folder/$destination)
  for pool in source destination; do at[$pool]=$([ "${side[$pool]}" = "$here" ] || echo root@other:); done
  echo "$source to $destination; here: $(tool zfs version | head -1), behind ssh: $(ssh root@other zfs version | head -1)"
  replicate "  "
  exchange
done
echo "failed=$failed"
exit $((failed > 100 ? 100 : failed))
