"""Follows a mirror into a DuckLake while everything is killed, and compares every table at the end. Called by `run`.

    check.py PROGRAM DIR      DIR: a folder that the user `postgres` may write
"""

import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from decimal import Decimal

from crm import Crm, quiet

PROGRAM, DIR = os.path.abspath(sys.argv[1]), sys.argv[2]
HERE = os.path.dirname(os.path.abspath(__file__))
FOLLOW = os.path.join(HERE, "../../docs/lake/follow.py")
KILLS = 10
# Columns that the stream leaves out, or sends with the next change of the record only.
LATE = {"synced_at", "fetched_at", "owner_name", "company_name"}
TABLES = {
    "contacts": "contacts_full", "companies": "companies_full", "team_members": "team_members",
    "custom_field_definitions": "custom_field_definitions", "custom_field_options": "custom_field_options",
    "custom_multi_values": "custom_multi_values", "removed_records": "removed_records", "changes": "changes",
}
random.seed(5)


def as_postgres(*words):
    return ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups", "--", *words] if os.getuid() == 0 else list(words)


def programs():
    root = "/usr/lib/postgresql"
    return os.path.join(root, sorted(os.listdir(root))[-1], "bin")


class Database:
    """The server with the catalog of the lake."""

    def __init__(self):
        self.data = os.path.join(DIR, "pg")
        subprocess.run(as_postgres(f"{programs()}/initdb", "-U", "lake", "-A", "trust", "--no-sync", "-D", self.data),
                       check=True, stdout=subprocess.DEVNULL, cwd=DIR)
        self.start()

    def start(self):
        self.process = quiet(as_postgres(f"{programs()}/postgres", "-D", self.data, "-k", DIR, "-c", "listen_addresses="), DIR)
        for _ in range(600):
            if subprocess.run([f"{programs()}/pg_isready", "-q", "-h", DIR], check=False).returncode == 0:
                return
            time.sleep(0.1)
        sys.exit("the server does not listen")

    def kill(self):
        # The immediate shutdown of a crash: the next start recovers.
        self.process.send_signal(signal.SIGQUIT)
        self.process.wait()


class Follower:
    def __init__(self, crm, follow=False):
        stream = [PROGRAM, "export", "--snapshot"] + (["--follow"] if follow else [])
        catalog = f"postgres:dbname=postgres host={DIR} user=lake"
        words = [sys.executable, FOLLOW, "--catalog", catalog, "--data", os.path.join(DIR, "data/"), "--", *stream]
        self.process = subprocess.Popen(words, env=crm.env, cwd=DIR, stderr=subprocess.PIPE, start_new_session=True)

    def end(self):
        _, errors = self.process.communicate(timeout=300)
        return self.process.returncode, errors.decode()

    def kill(self, after):
        time.sleep(after)
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def attached():
    import duckdb
    from duckdb_extensions import import_extension

    for extension in ("postgres_scanner", "ducklake"):
        import_extension(extension)
    db = duckdb.connect()
    db.execute("LOAD postgres_scanner; LOAD ducklake; SET TimeZone = 'UTC'")
    db.execute(f"ATTACH 'ducklake:postgres:dbname=postgres host={DIR} user=lake' AS lake (READ_ONLY)")
    return db


def compare(crm):
    db = attached()
    mirror = sqlite3.connect(f"file:{crm.mirror}?mode=ro", uri=True)
    total = 0
    for table, source in TABLES.items():
        described = db.execute(f"DESCRIBE lake.crm.{table}").fetchall()
        types = {row[0]: row[1] for row in described if row[0] not in LATE}
        here = [row[1] for row in mirror.execute(f"SELECT * FROM pragma_table_info('{source}')")]
        assert set(types) == set(here) - LATE, f"{table}: columns {set(types) ^ (set(here) - LATE)}"
        names = sorted(types)

        def read(column):
            if types[column].startswith("TIMESTAMP"):
                return f"strftime(\"{column}\", '%Y-%m-%dT%H:%M:%S.%fZ')"
            return f'"{column}"::VARCHAR' if types[column] in ("JSON", "DATE") else f'"{column}"'

        there = db.execute(f"SELECT {', '.join(map(read, names))} FROM lake.crm.{table}").fetchall()
        rows = mirror.execute("SELECT " + ", ".join(f'"{n}"' for n in names) + f" FROM {source}").fetchall()

        def plain(value, of_type):
            if value is None:
                return None
            if of_type == "JSON":
                return json.dumps(json.loads(value, parse_float=Decimal), sort_keys=True, default=str)
            if of_type.startswith("DECIMAL"):
                return str(Decimal(value).normalize())
            return int(value) if of_type == "BOOLEAN" else value

        def all_of(found):
            return sorted(repr([plain(v, types[n]) for n, v in zip(names, row)]) for row in found)

        here, there = all_of(rows), all_of(there)
        wrong = [pair for pair in zip(here, there) if pair[0] != pair[1]]
        assert len(here) == len(there) and not wrong, f"{table}: {len(here)} here, {len(there)} there; {wrong[:1]}"
        total += len(here)
    versions = db.execute("SELECT count(*), min(snapshot_id), max(snapshot_id) FROM ducklake_snapshots('lake')").fetchone()
    # As it was: the table of an earlier version.
    loaded = next(v for v in range(versions[1], versions[2] + 1) if has_contacts(db, v))
    then = db.execute(f"SELECT count(*) FROM lake.crm.contacts AT (VERSION => {loaded})").fetchone()[0]
    assert then == 300, f"{then} contacts in the first version"
    return total, versions[0]


def lose_a_file():
    """What DuckLake does to the files of a commit that the catalog made and could not answer."""
    db = attached()
    files = "SELECT delete_file FROM ducklake_list_files('lake', 'contacts', schema => 'crm') WHERE delete_file IS NOT NULL"
    os.unlink(db.execute(files).fetchone()[0])


def numbers_keep_their_digits():
    """A document of a stream has the same text in the lake."""
    document = '{"ratio":0.12345678901234567890,"many":[1E+400,123456789012345678901234567890]}'
    stream = os.path.join(DIR, "stream.ndjson")
    with open(stream, "w", encoding="utf-8") as file:
        file.write('{"schema":"odd","complete":true,"key":["id"],"columns":[{"name":"id","type":"text"},{"name":"extra","type":"jsonb"}]}\n'
                   f'{{"upsert":"odd","row":{{"id":"a","extra":{document}}}}}\n{{"cursor":"1"}}\n')
    catalog = ["--catalog", f"postgres:dbname=postgres host={DIR} user=lake", "--data", os.path.join(DIR, "data/")]
    subprocess.run([sys.executable, FOLLOW, *catalog, "--schema", "odd", "--", "cat", stream], check=True, cwd=DIR)
    there = attached().execute("SELECT extra::VARCHAR FROM lake.odd.odd").fetchone()[0]
    assert there == document, there


def has_contacts(db, version):
    try:
        return db.execute(f"SELECT count(*) FROM lake.crm.contacts AT (VERSION => {version})").fetchone()[0] > 0
    except Exception:  # the table is not there yet
        return False


def main():
    database, crm = Database(), Crm(PROGRAM, DIR)
    try:
        numbers_keep_their_digits()
        assert crm.run("sync") == 0, "the first copy failed"
        assert Follower(crm).end()[0] == 0, "the first snapshot failed"
        for round_number in range(KILLS):
            crm.change(round_number)
            crm.run("sync", kill_after=random.uniform(0.05, 1))
            crm.run("resync")
            Follower(crm, follow=True).kill(random.uniform(1, 6))
            follower = Follower(crm)
            time.sleep(random.uniform(0.5, 4))
            database.kill()
            follower.end()
            database.start()
        crm.run("resync")
        code, errors = Follower(crm).end()
        assert code == 0, errors
        compare(crm)
        lose_a_file()
        code, errors = Follower(crm).end()
        assert code == 0 and "is missing (1 in all)" in errors, errors
        total, versions = compare(crm)
        print(f"{total} rows in {len(TABLES)} tables are equal after {KILLS} kills of the follower, the mirror's runs and the "
              f"catalog's server, and after a lost file; the lake has {versions} versions")
    finally:
        crm.process.kill()
        database.kill()


main()
