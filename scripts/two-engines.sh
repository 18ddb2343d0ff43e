# Sourced by disks-, features- and keys-with-openzfs.sh: the commands of Millpond (m) and of OpenZFS's kernel module (k), and what either must do
# with a pool P whose files are in D/f. They are called with Millpond's binary and the directory D; `at` says what is under way. What is wrong is a
# line that begins with FAILED.
M=$(realpath "$1") D=$(realpath "$2") P=p failed=0 at=
export MILLPOND_RUN=$D/run LC_ALL=C
mkdir -p "$D/run" "$D/names" "$D/f" "$D/mnt"
for name in zpool zfs; do ln -sf "$M" "$D/names/$name"; done
cd "$D" || exit 1
zp() { local who=$1; shift; if [ $who = k ]; then zpool "$@"; else PATH=$D/names:$PATH zpool "$@"; fi; }
zf() { local who=$1; shift; if [ $who = k ]; then zfs "$@"; else PATH=$D/names:$PATH zfs "$@"; fi; }
other() { [ $1 = k ] && echo m || echo k; }
bad() { echo "FAILED: $at: $*"; failed=$((failed + 1)); }
must() { "$@" > $D/log 2>&1 || { bad "$*"; tail -5 $D/log; return 1; }; }
# Two lists that must be equal, of what.
compare() { cmp -s $1 $2 || { bad "$3"; diff $1 $2 | head -6; }; }
# A scrub that finds nothing, by whom.
scrub() {
 must zp $1 scrub -w $P; zp $1 status $P > $D/st
 grep -q 'repaired 0B.*with 0 errors' $D/st && grep -q 'No known data errors' $D/st || { bad "scrub by $1"; cat $D/st; }
}
verify() { zdb -e -p $D/f -bcc $P > $D/zdb 2>&1; grep -q 'No leaks' $D/zdb || { bad zdb; grep -v '^$' $D/zdb | tail -5; }; }
# A time in whole seconds that no clock sets back.
seconds() { cut -d. -f1 /proc/uptime; }
