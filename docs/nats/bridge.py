#!/usr/bin/env python3
"""Carries the stream of a mirror into a NATS JetStream, in order; whatever is killed, it goes on from the last cursor there.

    bridge.py --servers nats://a:4222,nats://b:4222 [--stream CRM] [--replicas 3] -- crm-mirror export --snapshot --follow

The command after `--` writes the stream; `--since CURSOR` is added to it. It ends when the stream ends. Packages:
requirements.txt.
"""

import argparse
import asyncio
import json
import sys
import uuid

import nats
from nats.errors import (ConnectionReconnectingError, Error, NoRespondersError, OutboundBufferLimitError,
                         StaleConnectionError)
from nats.js.errors import NoStreamResponseError, NotFoundError, ServiceUnavailableError

# Bytes of lines in a message; a server takes 1 MiB unless it is configured otherwise. A longer line is a message of its own.
MOST = 512 * 1024


# No answer, no connection (what waits for one is limited), or no leader.
PASSING = (asyncio.TimeoutError, OSError, NoRespondersError, StaleConnectionError, ConnectionReconnectingError,
           OutboundBufferLimitError, NoStreamResponseError, ServiceUnavailableError)
# Codes of the server: too few of them have joined the cluster so far, and the limits of the stream are reached.
TOO_FEW, NOT_STORED = 10005, 10077


def passes(error):
    code = getattr(error, "err_code", None)
    return code == TOO_FEW or isinstance(error, PASSING) and code != NOT_STORED


async def persistently(action):
    """What a cluster without a leader refuses is tried again: the id of a message, the same each time, makes it arrive once."""
    said = None
    while True:
        try:
            return await action()
        except (Error, OSError, asyncio.TimeoutError) as error:
            if not passes(error):
                raise
            if said != str(error):
                said = str(error)
                print(f"bridge.py: waiting: {said}", file=sys.stderr, flush=True)
            await asyncio.sleep(0.5)


class Bridge:
    def __init__(self, connection, stream, replicas):
        self.stream, self.replicas, self.js = stream, replicas, connection.jetstream(timeout=5)

    async def last_cursor(self):
        subjects = [f"{self.stream}.>"]
        await persistently(lambda: self.js.add_stream(name=self.stream, subjects=subjects, num_replicas=self.replicas))
        try:
            last = await persistently(lambda: self.js.get_last_msg(self.stream, f"{self.stream}.cursor"))
        except NotFoundError:
            return None
        return last.data.decode()

    async def publish(self, subject, data, group):
        # A number of a group would not do: the small tables alone are a group with the cursor of the one before, and what is sent
        # again after a kill need not end at the same lines. The server drops the second of two messages with one id.
        headers = {"Nats-Msg-Id": uuid.uuid4().hex, "Crm-Group": group}
        await persistently(lambda: self.js.publish(f"{self.stream}.{subject}", data, headers=headers))

    async def group(self, lines, cursor):
        """Publishes the lines between two cursors: consecutive ones of a table together, and then the cursor. All have the name of
        the group, so that a consumer drops those of a group that a kill cut short: what follows need not repeat them."""
        table, batch, size, group = None, [], 0, uuid.uuid4().hex
        for of, text in [*lines, (None, b"")]:
            if batch and (of != table or size + len(text) > MOST):
                await self.publish(table, b"".join(batch), group)
                batch, size = [], 0
            table, size = of, size + len(text)
            batch.append(text)
        await self.publish("cursor", cursor.encode(), group)


async def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--servers", required=True)
    parser.add_argument("--stream", default="CRM")
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    connection = await nats.connect(args.servers.split(","), max_reconnect_attempts=-1, reconnect_time_wait=0.5)
    bridge = Bridge(connection, args.stream, args.replicas)
    since = await bridge.last_cursor()
    command = [*args.command, *(["--since", since] if since else [])]
    stream = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE, limit=1 << 28)
    lines = []
    async for text in stream.stdout:
        line = json.loads(text)
        if "cursor" in line:
            await bridge.group(lines, line["cursor"])
            lines = []
        else:
            lines.append((line.get("schema") or line.get("upsert") or line["remove"], text))
    raise SystemExit(await stream.wait())


try:
    asyncio.run(main())
except Error as error:
    sys.exit(f"bridge.py: {error}")
