#!/usr/bin/env python3
"""PostgreSQL on a mount whose server is killed with SIGKILL: no commit that a client was told of is lost.

Each round runs pgbench and a few clients that write down each acknowledged insert, kills the server of the mount, then
PostgreSQL, imports the pool again, lets PostgreSQL recover, and compares. usage: postgres.py ROUNDS
"""

import glob, os, random, shutil, signal, subprocess, sys, tempfile, threading, time

CLIENTS = 4
USER = "postgres"


def fail(why):
    print(f"FAILED: {why}", flush=True)
    sys.exit(1)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(0)


class Suite:
    def __init__(self):
        self.millpond = os.environ.get("MILLPOND_BIN") or skip("MILLPOND_BIN is not set")
        if os.geteuid() != 0 or not os.path.exists("/dev/fuse"):
            skip("needs root and /dev/fuse")
        binaries = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
        if not binaries or shutil.which("psql") is None:
            skip("there is no PostgreSQL here (package postgresql)")
        self.binaries = binaries[-1]
        self.work = tempfile.mkdtemp(prefix="millpond-postgres.", dir="/tmp")
        os.chmod(self.work, 0o755)
        for name in ("mounts", "run", "socket"):
            os.mkdir(f"{self.work}/{name}")
        shutil.chown(f"{self.work}/socket", USER)
        os.environ["MILLPOND_RUN"] = f"{self.work}/run"
        self.data = f"{self.work}/mounts/pg/data"
        self.acknowledged = [0] * CLIENTS

    def admin(self, *arguments):
        subprocess.run([self.millpond, *arguments], check=True)

    def as_user(self, *command, **options):
        return subprocess.run(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", *command], **options)

    def tool(self, name, *arguments, **options):
        return self.as_user(f"{self.binaries}/{name}", *arguments, **options)

    def sql(self, text):
        command = ["psql", "-h", f"{self.work}/socket", "-d", "postgres", "-AtqX", "-v", "ON_ERROR_STOP=1", "-c", text]
        done = self.as_user(*command, check=True, capture_output=True, text=True)
        return done.stdout.strip()

    def start(self):
        log = f"{self.work}/socket/log"
        options = f"-k {self.work}/socket -c listen_addresses='' -c full_page_writes=on"
        if self.tool("pg_ctl", "-D", self.data, "-l", log, "-o", options, "-w", "-t", "120", "start",
                     stdout=subprocess.DEVNULL).returncode:
            print(open(log).read()[-3000:])
            fail("PostgreSQL does not start")

    def create(self):
        self.admin("zpool", "create", "--size", "3G", "-R", f"{self.work}/mounts", "-O", "recordsize=8K", "pg",
                   f"{self.work}/pg.img")
        os.mkdir(self.data)
        shutil.chown(self.data, USER, USER)
        os.chmod(self.data, 0o700)
        self.tool("initdb", "-D", self.data, "-A", "trust", check=True, stdout=subprocess.DEVNULL)
        self.start()
        self.sql("create table ledger (client int, number int, filler text)")
        self.tool("pgbench", "-h", f"{self.work}/socket", "-i", "-q", "-s", "3", "postgres", check=True,
                  stderr=subprocess.DEVNULL)

    def client(self, number):
        command = ["psql", "-h", f"{self.work}/socket", "-d", "postgres", "-AtqX", "-v", "ON_ERROR_STOP=1"]
        psql = subprocess.Popen(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups", *command],
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            while True:
                wanted = self.acknowledged[number] + 1
                psql.stdin.write(f"insert into ledger values ({number}, {wanted}, repeat('x', {wanted % 500})) "
                                 "returning number;\n")
                psql.stdin.flush()
                if psql.stdout.readline().strip() != str(wanted):
                    break
                self.acknowledged[number] = wanted
        except OSError:
            pass
        psql.kill()
        psql.wait()

    def server(self):
        """The process that serves the mount: it has /dev/fuse open."""
        for path in glob.glob("/proc/[0-9]*/environ"):
            process = path.split("/")[2]
            try:
                environment = open(path, "rb").read()
                command = open(f"/proc/{process}/cmdline", "rb").read()
                files = [os.readlink(link) for link in glob.glob(f"/proc/{process}/fd/*")]
            except OSError:
                continue
            if f"MILLPOND_RUN={self.work}/run".encode() in environment and b"millpond" in command and "/dev/fuse" in files:
                return int(process)
        fail("nobody serves the mount")

    def end(self, postmaster):
        """Ends PostgreSQL, which may have ended itself: it looks for its lock file once a minute."""
        try:
            os.kill(postmaster, signal.SIGQUIT)
            for _ in range(300):
                os.kill(postmaster, 0)
                time.sleep(0.1)
            os.kill(postmaster, signal.SIGKILL)
        except ProcessLookupError:
            pass

    def round(self):
        postmaster = int(open(f"{self.data}/postmaster.pid").readline())
        clients = [threading.Thread(target=self.client, args=(number,)) for number in range(CLIENTS)]
        bench = subprocess.Popen(["setpriv", f"--reuid={USER}", f"--regid={USER}", "--init-groups",
                                  f"{self.binaries}/pgbench", "-h", f"{self.work}/socket", "-n", "-c", "4", "-T", "60",
                                  "postgres"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        before = sum(self.acknowledged)
        for client in clients:
            client.start()
        time.sleep(random.uniform(1, 6))
        os.kill(self.server(), signal.SIGKILL)
        for client in clients:
            client.join(30)
        self.end(postmaster)
        bench.wait()
        subprocess.run(["umount", "-l", f"{self.work}/mounts/pg"], stderr=subprocess.DEVNULL)
        self.admin("zpool", "import", "-f", "-d", self.work, "-R", f"{self.work}/mounts", "pg")
        if os.path.exists(f"{self.data}/postmaster.pid"):
            os.unlink(f"{self.data}/postmaster.pid")
        self.start()
        for number in range(CLIENTS):
            told = self.acknowledged[number]
            found = self.sql(f"select count(*), coalesce(max(number), 0), count(distinct number) from ledger "
                             f"where client = {number}")
            count, last, distinct = map(int, found.split("|"))
            # One insert may have been under way.
            if last not in (told, told + 1) or count != last or distinct != last:
                fail(f"client {number} was told of {told} commits, found {found}")
            self.acknowledged[number] = last
        sums = self.sql("select (select sum(abalance) from pgbench_accounts), (select sum(tbalance) from pgbench_tellers), "
                        "(select sum(bbalance) from pgbench_branches), (select coalesce(sum(delta), 0) from pgbench_history)")
        if len(set(sums.split("|"))) != 1:
            fail(f"pgbench's sums differ: {sums}")
        return sum(self.acknowledged) - before

    def main(self, rounds):
        self.create()
        for number in range(rounds):
            print(f"round {number + 1}: {self.round()} commits, all there", flush=True)
        self.tool("pg_ctl", "-D", self.data, "-m", "fast", "-w", "stop", check=True, stdout=subprocess.DEVNULL)
        self.admin("zpool", "export", "pg")
        self.admin("inspect", "--verify", f"{self.work}/pg.img")
        print(f"{rounds} servers killed, {sum(self.acknowledged)} acknowledged commits, none lost")
        shutil.rmtree(self.work)


Suite().main(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
