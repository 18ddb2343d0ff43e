"""Send streams to and fro between Millpond and the kernel module of OpenZFS, of every kind, and what is received compared.

A pool of each is made, with the same contents. Every kind of stream that the one and the other send is received by both. Compared are: what
was sent with what was received (names, types, modes, owners, times, sizes, links, devices, extended attributes, where files have data and
which), and what the two say of what they received from the same stream (properties with their sources, guids of snapshots, origins, holds,
redaction). Then both pools are scrubbed, zdb looks at both where it is at hand, and the module imports and scrubs Millpond's.

usage: python3 streams-with-openzfs MILLPOND [--folder FOLDER] [--both] [--seconds N] [CASE...]      as root, with OpenZFS's zfs and zpool in PATH
  --folder   where pools and mounts are made (1 GB; default: a new one below $TMPDIR)
  --both     Millpond on both sides, to try this script
  --seconds  no case is begun after so many
  --list     the cases; some need what others before them have made
What differs is a line that begins with DIFFERENT or FAILED. The last line says how many, and so does the exit status.
"""

import argparse, os, pathlib, re, shutil, subprocess, sys, tempfile, time, traceback

import pools
from pools import SIDES, Refused, Side, fail, make_pool, say
from sources import make_sources
from cases import CASES, ORDER, Try
import plain, packages, sealed, parts  # noqa: F401 (their cases)


def finish(folder):
    """Scrubs, exports, zdb, and Millpond's pool in the module."""
    for side in SIDES:
        side.zpool("scrub -w %")
        status = side.zpool("status -v %")
        say(f"{side}:", *re.findall(r"scan: (.*)|errors: (.*)", status)[0])
        if "repaired 0B" not in status or "with 0 errors" not in status or "No known data errors" not in status:
            fail("FAILED", f"scrub of {side}: {status}")
        side.zpool("export %")
    ours, theirs = SIDES[1], SIDES[0]
    if theirs.is_module:
        theirs.did("zpool", f"import -N -d {folder} {ours}")
        theirs.did("zpool", f"scrub -w {ours}")
        status = theirs.did("zpool", f"status -v {ours}")
        say("Millpond's pool in the module:", *re.findall(r"scan: (.*)", status))
        if "repaired 0B" not in status or "with 0 errors" not in status or "No known data errors" not in status:
            fail("FAILED", f"the module's scrub of Millpond's pool: {status}")
        theirs.did("zpool", f"export {ours}")
    if shutil.which("zdb"):
        done = subprocess.run(["zdb", "-e", "-p", folder, "-bcc", ours.pool], capture_output=True, text=True)
        if done.returncode or "No leaks" not in done.stdout:
            fail("FAILED", f"zdb: {done.stdout[-2000:]} {done.stderr[-2000:]}")


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("millpond", type=pathlib.Path)
    options.add_argument("--folder", type=pathlib.Path)
    options.add_argument("--both", action="store_true")
    options.add_argument("--list", action="store_true")
    options.add_argument("--seconds", type=int, default=1 << 40)
    options.add_argument("case", nargs="*")
    given = options.parse_intermixed_args()
    if given.list:
        for name, run in CASES.items():
            print(f"{name:14} {run.__doc__}")
        return 0
    os.umask(0o022)
    end = time.monotonic() + given.seconds
    folder = given.folder or pathlib.Path(tempfile.mkdtemp())
    folder.mkdir(exist_ok=True)
    os.environ |= {"MILLPOND_RUN": str(folder / "run"), "XDG_RUNTIME_DIR": str(folder), "HOME": str(folder)}
    millpond = str(given.millpond.resolve())
    commands = {"zfs": [millpond, "zfs"], "zpool": [millpond, "zpool"]}
    module = commands if given.both else {"zfs": ["zfs"], "zpool": ["zpool"]}
    SIDES[:] = [Side("openzfs", folder, module["zfs"], module["zpool"], not given.both), Side("millpond", folder, commands["zfs"], commands["zpool"], False)]
    for side in SIDES:
        make_pool(side)
    try:
        make_sources()
        for name in given.case or ORDER:
            run = CASES[name]
            for source in SIDES:
                if time.monotonic() > end:
                    fail("FAILED", f"{name} from {source}: there was no time for it")
                    continue
                say(f"{name}, {source} sends: {run.__doc__}")
                try:
                    run(Try(name, source))
                except (Refused, OSError, AssertionError, subprocess.SubprocessError) as error:
                    fail("FAILED", f"{name} from {source}: {error}")
                    traceback.print_exc(limit=-3, file=sys.stdout)
    finally:
        try:
            finish(folder)
        except (Refused, OSError) as error:
            fail("FAILED", f"at the end: {error}")
    print(f"failed={pools.failed}")
    return min(pools.failed, 100)


if __name__ == "__main__":
    sys.exit(main())
