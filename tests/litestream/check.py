"""Replicates a mirror with Litestream while its runs and Litestream are killed, reads the replica by the VFS in the stock shell, and
restores it. Called by `run`.

    check.py PROGRAM DIR
"""

import json
import os
import random
import sqlite3
import subprocess
import sys
import time
import urllib.request

import litestream_vfs

PROGRAM, DIR = os.path.abspath(sys.argv[1]), sys.argv[2]
LITESTREAM = os.path.join(os.path.dirname(sys.executable), "litestream")
VFS = os.path.join(os.path.dirname(litestream_vfs.__file__), "litestream-vfs.so")
MIRROR, REPLICA = os.path.join(DIR, "mirror.db"), os.path.join(DIR, "replica")
KILLS = 12
VIEWS = ("contacts_full", "companies_full", "changes", "removed_records")
random.seed(5)


def quiet(words, **more):
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=DIR, **more)


class Crm:
    def __init__(self):
        words = [PROGRAM, "sandbox", "--port", "0", "--contacts", "300", "--companies", "40"]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=DIR)
        self.url, key = (self.process.stdout.readline().decode().split(": ")[1].strip() for _ in range(2))
        self.env = {
            "PATH": os.environ["PATH"], "HOME": DIR, "CRM_MIRROR_API__BASE_URL": self.url, "CRM_MIRROR_API__KEY": key,
            "CRM_MIRROR_DATABASE__PATH": MIRROR, "CRM_MIRROR_WRITE_BACK__ENABLED": "true",
        }

    def admin(self, verb, body):
        url = self.url.replace("/v1", f"/_sandbox/{verb}")
        return urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())).read()

    def run(self, *words, kill_after=None):
        process = quiet([PROGRAM, *words], env=self.env)
        if kill_after is not None:
            time.sleep(kill_after)
            process.kill()
        return process.wait()

    def change(self, number):
        for contact in self.ids[number * 20 : number * 20 + 20]:
            self.admin("change", {"object": "contact", "id": contact, "fields": {"position": f"round {number}"}})
        self.admin("delete", {"object": "contact", "id": self.ids[-1 - number]})
        self.admin("clock", {"advance": "7h"})


def rows(path):
    conn = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    found = {view: conn.execute(f"SELECT * FROM {view} ORDER BY 1").fetchall() for view in VIEWS}
    assert conn.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    conn.close()
    return found


def replicate():
    return quiet([LITESTREAM, "replicate", "-config", os.path.join(DIR, "litestream.yml")])


def restore(name):
    path = os.path.join(DIR, name)
    subprocess.run([LITESTREAM, "restore", "-o", path, f"file://{REPLICA}"], check=True, capture_output=True, cwd=DIR)
    return path


def until(holds, what):
    for _ in range(300):
        if holds():
            return
        time.sleep(0.2)
    sys.exit(f"FAILED: {what}")


def by_vfs():
    """The number of changes that the stock shell sees in the replica."""
    commands = f".load {VFS}\n.open file:mirror.db?vfs=litestream\nSELECT count(*) FROM changes;\n"
    env = {**os.environ, "LITESTREAM_REPLICA_URL": f"file://{REPLICA}"}
    done = subprocess.run(["sqlite3"], input=commands, env=env, capture_output=True, text=True, check=False, timeout=60)
    return done.stdout.strip(), done.stderr


def main():
    crm = Crm()
    with open(os.path.join(DIR, "litestream.yml"), "w", encoding="utf-8") as file:
        file.write(f"dbs:\n  - path: {MIRROR}\n    replica:\n      type: file\n      path: {REPLICA}\n")
    assert crm.run("sync") == 0, "the first copy failed"
    crm.ids = [row[0] for row in sqlite3.connect(MIRROR).execute("SELECT id FROM contacts ORDER BY id")]
    litestream = replicate()
    try:
        for number in range(KILLS):
            crm.change(number)
            if number % 2:
                crm.run("sync", kill_after=random.uniform(0.05, 0.8))
            else:
                crm.run("sync")
                time.sleep(random.uniform(0, 1))
                litestream.kill()
                litestream.wait()
                litestream = replicate()
        assert crm.run("resync") == 0, "the last run failed"
        expected = rows(MIRROR)
        wanted = str(len(expected["changes"]))
        until(lambda: by_vfs()[0] == wanted, f"the VFS shows {by_vfs()} instead of {wanted} changes")
        litestream.terminate()
        litestream.wait()
        assert rows(restore("restored.db")) == expected, "the restored mirror differs"
        mode = os.stat(os.path.join(DIR, "restored.db")).st_mode & 0o777
        names = {row[0] for row in sqlite3.connect(MIRROR).execute("SELECT name FROM sqlite_master WHERE name LIKE '_litestream%'")}
        print(f"{sum(map(len, expected.values()))} rows of {len(VIEWS)} views are equal after {KILLS} kills and a restore; "
              f"a restored file has the mode {mode:o}; tables of its own: {', '.join(sorted(names))}")
    finally:
        litestream.kill()
        crm.process.kill()


main()
