"""Carries a mirror's stream into three NATS servers while the bridge and the servers are killed, and compares what a consumer
makes of it with the mirror. Called by `run`.

    check.py PROGRAM DIR      DIR: an empty folder
"""

import asyncio
import json
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time

import nats

from crm import Crm, quiet

PROGRAM, DIR = os.path.abspath(sys.argv[1]), sys.argv[2]
BRIDGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../docs/nats/bridge.py")
KILLS = 10
# Columns that the stream leaves out, or sends with the next change of the record only.
LATE = {"synced_at", "fetched_at", "owner_name", "company_name"}
SOURCES = {"contacts": "contacts_full", "companies": "companies_full"}
TABLES = {"contacts", "companies", "team_members", "custom_field_definitions", "custom_field_options", "custom_multi_values", "changes",
          "removed_records"}
random.seed(7)


def free_ports(count):
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class Cluster:
    """Three servers with JetStream."""

    def __init__(self):
        ports = free_ports(6)
        self.clients, routes = ports[:3], ports[3:]
        self.servers = ",".join(f"nats://127.0.0.1:{port}" for port in self.clients)
        self.words = [
            ["nats-server", "-a", "127.0.0.1", "-p", str(client), "-n", f"n{n}", "-js", "-sd", os.path.join(DIR, f"n{n}"),
             "-cluster_name", "c", "-cluster", f"nats://127.0.0.1:{routes[n]}",
             "-routes", ",".join(f"nats://127.0.0.1:{port}" for port in routes)]
            for n, client in enumerate(self.clients)
        ]
        self.processes = [quiet(words, DIR) for words in self.words]

    def kill(self, number):
        self.processes[number].kill()
        self.processes[number].wait()

    def start(self, number):
        self.processes[number] = quiet(self.words[number], DIR)

    def end(self):
        for process in self.processes:
            process.kill()


def bridge(crm, cluster, follow=False, stream=None):
    stream = stream or [PROGRAM, "export", "--snapshot"] + (["--follow"] if follow else [])
    words = [sys.executable, BRIDGE, "--servers", cluster.servers, "--", *stream]
    return subprocess.Popen(words, env=crm.env, cwd=DIR, stderr=subprocess.PIPE, start_new_session=True)


def ended(process):
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0, errors.decode()


async def consumed(cluster):
    """What a consumer has after the whole stream: the rows of each table, and the ids of all messages."""
    connection = await nats.connect(cluster.servers.split(","))
    js = connection.jetstream(timeout=10)
    last = (await js.stream_info("CRM")).state.last_seq
    consumer = await js.pull_subscribe("CRM.>")
    keys, rows, ids, group, seen, cursor = {}, {}, [], [], 0, None
    while seen < last:
        for message in await consumer.fetch(100, timeout=30):
            await message.ack()
            seen = message.metadata.sequence.stream
            ids.append(message.headers["Nats-Msg-Id"])
            group.append(message)
            if message.subject != "CRM.cursor":
                continue
            cursor = message.data.decode()
            # The others are of a group that was cut short.
            of_cursor = [each for each in group[:-1] if each.headers["Crm-Group"] == message.headers["Crm-Group"]]
            group = []
            for line in (json.loads(text) for each in of_cursor for text in each.data.splitlines()):
                if "schema" in line:
                    keys[line["schema"]] = line["key"]
                    if line["complete"]:
                        rows[line["schema"]] = {}
                elif "upsert" in line:
                    row = line["row"]
                    rows[line["upsert"]][tuple(row[column] for column in keys[line["upsert"]])] = row
                else:
                    table, gone = line["remove"], line["key"].items()
                    kept = rows[table].items()
                    rows[table] = {key: row for key, row in kept if any(row[c] != value for c, value in gone)}
    await connection.close()
    return rows, ids, cursor


def compare(crm, rows):
    assert set(rows) == TABLES, f"the stream has the tables {sorted(rows)}"
    mirror = sqlite3.connect(f"file:{crm.mirror}?mode=ro", uri=True)
    mirror.row_factory = sqlite3.Row
    total = 0
    for table, found in rows.items():
        here = [dict(row) for row in mirror.execute(f"SELECT * FROM {SOURCES.get(table, table)}")]

        def plain(name, value):
            if value is None or name in LATE:
                return None
            if isinstance(value, (dict, list)):
                return json.dumps(value, sort_keys=True)
            if isinstance(value, str) and value[:1] in "[{":
                try:
                    return json.dumps(json.loads(value), sort_keys=True)
                except ValueError:
                    return value
            return int(value) if isinstance(value, bool) else value

        def all_of(some):
            # A column that came later is NULL in the rows before it.
            pairs = ([(n, plain(n, v)) for n, v in row.items()] for row in some)
            return sorted(repr(sorted(pair for pair in row if pair[1] is not None)) for row in pairs)

        here, there = all_of(here), all_of(found.values())
        wrong = [pair for pair in zip(here, there) if pair[0] != pair[1]]
        assert len(here) == len(there) and not wrong, f"{table}: {len(here)} here, {len(there)} there; {wrong[:1]}"
        total += len(here)
    return total


def cut_short(crm, cluster):
    """A bridge ends in the middle of a group that begins all rows of a table anew: its next line is larger than a message may be."""
    lines = """import json
for line in [
    {"schema": "contacts", "key": ["id"], "complete": True, "columns": []},
    {"upsert": "companies", "row": {"id": "x" * 2**21}},
    {"cursor": "none"},
]:
    print(json.dumps(line))
"""
    process = bridge(crm, cluster, stream=[sys.executable, "-c", lines])
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 1 and b"maximum payload exceeded" in errors, errors.decode()
    ended(bridge(crm, cluster))
    compare(crm, asyncio.run(consumed(cluster))[0])


def rename_team_member(crm, cluster):
    """A team member alone gets another name and the first one again. The feed has neither, so that the cursor stays."""
    mirror = sqlite3.connect(f"file:{crm.mirror}?mode=ro", uri=True)
    member, name = mirror.execute("SELECT id, first_name FROM team_members ORDER BY id LIMIT 1").fetchone()
    mirror.close()
    cursors = set()
    for other in ("Renamed", name):
        crm.admin("change", {"object": "team-member", "id": member, "fields": {"firstName": other}})
        assert crm.run("resync") == 0
        ended(bridge(crm, cluster))
        rows, _, cursor = asyncio.run(consumed(cluster))
        assert rows["team_members"][(member,)]["first_name"] == other, f"the stream has not {other!r}"
        compare(crm, rows)
        cursors.add(cursor)
    assert len(cursors) == 1, "more than the team member changed"


def main():
    cluster, crm = Cluster(), Crm(PROGRAM, DIR)
    try:
        assert crm.run("sync") == 0, "the first copy failed"
        ended(bridge(crm, cluster))
        compare(crm, asyncio.run(consumed(cluster))[0])
        cut_short(crm, cluster)
        rename_team_member(crm, cluster)
        for number in range(KILLS):
            crm.change(number)
            crm.run("sync", kill_after=random.uniform(0.05, 1))
            crm.run("resync")
            following = bridge(crm, cluster, follow=True)
            time.sleep(random.uniform(0.3, 2))
            os.killpg(following.pid, signal.SIGKILL)
            following.communicate()
            last = bridge(crm, cluster)
            time.sleep(random.uniform(0.2, 1))
            cluster.kill(number % 3)
            ended(last)
            cluster.start(number % 3)
        crm.run("resync")
        ended(bridge(crm, cluster))
        rows, ids, cursor = asyncio.run(consumed(cluster))
        total = compare(crm, rows)
        assert len(set(ids)) == len(ids), "a message is in the stream twice"
        print(f"{total} rows in {len(rows)} tables are equal after {KILLS} kills of the bridge and of a server; "
              f"{len(ids)} messages, none twice, up to {cursor}")
    finally:
        crm.process.kill()
        cluster.end()


main()
