#!/usr/bin/env python3
"""Keeps a DuckLake exact: follows the stream of a mirror, one transaction of the lake for each cursor, which is in it.

    follow.py --catalog "postgres:dbname=lake host=db.example.com" --data DIR [--schema crm] -- crm-mirror export --snapshot --follow

The command after `--` writes the stream; `--since CURSOR` is added to it. It ends when the stream ends. Whatever is killed,
the next start goes on from the cursor in the lake. Packages: requirements.txt.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from decimal import Decimal

import duckdb
from duckdb_extensions import import_extension

TYPES = {
    "text": "VARCHAR",
    "bigint": "BIGINT",
    "boolean": "BOOLEAN",
    "numeric": "DECIMAL(38, 10)",
    "double precision": "DOUBLE",
    "timestamptz": "TIMESTAMPTZ",
    "date": "DATE",
    "jsonb": "JSON",
}


def name(text):
    return '"' + text.replace('"', '""') + '"'


def as_json(value):
    """Numbers keep all of their digits."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(key)}:{as_json(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(as_json, value)) + "]"
    return str(value) if isinstance(value, Decimal) else json.dumps(value)


class Folded:
    """What a group does to one table, so that each row is written once."""

    def __init__(self):
        self.schema = None
        self.is_complete = False
        self.removed = []
        self.rows = {}

    def add(self, line, key):
        if "schema" in line:
            self.schema = line
            if line["complete"]:
                self.is_complete, self.removed, self.rows = True, [], {}
        elif "upsert" in line:
            row = line["row"]
            self.rows[tuple(row[column] for column in key)] = row
        else:
            gone = line["key"].items()
            self.removed.append(line["key"])
            self.rows = {k: row for k, row in self.rows.items() if any(row[c] != value for c, value in gone)}


class Lake:
    def __init__(self, catalog, data, schema):
        for extension in ("postgres_scanner", "ducklake"):
            import_extension(extension)
        self.db = duckdb.connect()
        self.db.execute("LOAD postgres_scanner; LOAD ducklake; SET TimeZone = 'UTC'")
        self.db.execute(f"ATTACH 'ducklake:{catalog}' AS lake (DATA_PATH '{data}')")
        self.schema = f"lake.{name(schema)}"
        self.db.execute(f"CREATE SCHEMA IF NOT EXISTS {self.schema}")
        self.drop_if_damaged(schema, data)
        self.db.execute(f"CREATE TABLE IF NOT EXISTS {self.schema}.stream_cursor (cursor VARCHAR)")
        found = self.db.execute(f"SELECT cursor FROM {self.schema}.stream_cursor").fetchone()
        self.cursor, self.keys, self.columns = found and found[0], {}, {}

    def drop_if_damaged(self, schema, data):
        """Begins again where a file is missing. A catalog that dies while it answers a commit may have committed; DuckLake takes the
        commit for failed and deletes the files that the catalog now names. Without its cursor the stream begins with all rows."""
        in_schema = "SELECT table_name FROM duckdb_tables() WHERE database_name = 'lake' AND schema_name = ?"
        tables = [row[0] for row in self.db.execute(in_schema, [schema]).fetchall()]
        files = "SELECT unnest([data_file, delete_file]) FROM ducklake_list_files('lake', ?, schema => ?)"
        named = {table: [row[0] for row in self.db.execute(files, [table, schema]).fetchall() if row[0]] for table in tables}
        below = self.db.execute("SELECT file FROM glob(?)", [f"{data.rstrip('/')}/**"]).fetchall()
        there = {os.path.basename(row[0]) for row in below}
        missing = {t: [f for f in of if os.path.basename(f) not in there and not os.path.exists(f)] for t, of in named.items()}
        lost = [file for files in missing.values() for file in files]
        if not lost:
            return
        if not there:
            raise SystemExit(f"{data} has no file, and the lake has {len(lost)} there: is that the folder, and is it mounted?")
        print(f"{lost[0]} is missing ({len(lost)} in all): every row is loaded again", file=sys.stderr)
        dropped = {"stream_cursor", *(table for table, files in missing.items() if files)} & set(tables)
        self.db.execute("".join(["BEGIN; ", *(f"DROP TABLE {self.schema}.{name(table)}; " for table in dropped), "COMMIT"]))

    def shape(self, table, schema):
        """Brings a table to its columns: a column of another type is a new, empty one."""
        wanted = {column["name"]: TYPES[column["type"]] for column in schema["columns"]}
        self.keys[table], self.columns[table] = schema["key"], wanted
        place = f"{self.schema}.{name(table)}"
        columns = ", ".join(f"{name(column)} {of_type}" for column, of_type in wanted.items())
        self.db.execute(f"CREATE TABLE IF NOT EXISTS {place} ({columns})")
        there = dict(row[:2] for row in self.db.execute(f"DESCRIBE {place}").fetchall())
        spelt = {"TIMESTAMPTZ": "TIMESTAMP WITH TIME ZONE", "DECIMAL(38, 10)": "DECIMAL(38,10)"}
        for column, of_type in there.items():
            if of_type != spelt.get(wanted.get(column), wanted.get(column)):
                self.db.execute(f"ALTER TABLE {place} DROP COLUMN {name(column)}")
        there = {row[0] for row in self.db.execute(f"DESCRIBE {place}").fetchall()}
        for column, of_type in wanted.items():
            if column not in there:
                self.db.execute(f"ALTER TABLE {place} ADD COLUMN {name(column)} {of_type}")

    def load(self, rows, columns):
        """A relation of rows with these columns."""
        with tempfile.NamedTemporaryFile("w", suffix=".ndjson", delete=False, encoding="utf-8") as file:
            for row in rows:
                # DuckDB rounds the numbers of a document that it parses, so each is a text.
                documents = {c: as_json(row[c]) for c, t in columns.items() if t == "JSON" and row[c] is not None}
                file.write(as_json({**row, **documents}) + "\n")
        read_as = {column: "VARCHAR" if of_type == "JSON" else of_type for column, of_type in columns.items()}
        types = ", ".join(f"{name(column)}: '{of_type}'" for column, of_type in read_as.items())
        self.db.execute(
            f"CREATE OR REPLACE TEMP TABLE incoming AS SELECT * FROM "
            f"read_json('{file.name}', format = 'newline_delimited', columns = {{{types}}}, maximum_object_size = 268435456)"
        )
        os.unlink(file.name)

    def apply(self, group, cursor):
        self.db.execute("BEGIN")
        for table, folded in group.items():
            if folded.schema:
                self.shape(table, folded.schema)
            place, columns = f"{self.schema}.{name(table)}", self.columns[table]
            if folded.is_complete:
                self.db.execute(f"DELETE FROM {place}")
            by_columns = {}
            for gone in folded.removed:
                by_columns.setdefault(tuple(gone), []).append(gone)
            if folded.rows and not folded.is_complete:
                key = self.keys[table]
                keys = [{column: row[column] for column in key} for row in folded.rows.values()]
                by_columns.setdefault(tuple(key), []).extend(keys)
            for key, removed in by_columns.items():
                self.load(removed, {column: columns[column] for column in key})
                same = " AND ".join(f"t.{name(column)} = i.{name(column)}" for column in key)
                self.db.execute(f"DELETE FROM {place} AS t USING incoming AS i WHERE {same}")
            if folded.rows:
                self.load(folded.rows.values(), columns)
                self.db.execute(f"INSERT INTO {place} BY NAME SELECT * FROM incoming")
        self.db.execute(f"DELETE FROM {self.schema}.stream_cursor")
        self.db.execute(f"INSERT INTO {self.schema}.stream_cursor VALUES (?)", [cursor])
        self.db.execute("COMMIT")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--catalog", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--schema", default="crm")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    lake = Lake(args.catalog, args.data, args.schema)
    command = [*args.command, *(["--since", lake.cursor] if lake.cursor else [])]
    stream = subprocess.Popen(command, stdout=subprocess.PIPE)
    group, keys = {}, {}
    for text in stream.stdout:
        line = json.loads(text, parse_float=Decimal)
        if "cursor" in line:
            lake.apply(group, line["cursor"])
            group = {}
            continue
        table = line.get("schema") or line.get("upsert") or line["remove"]
        if "schema" in line:
            keys[table] = line["key"]
        group.setdefault(table, Folded()).add(line, keys[table])
    raise SystemExit(stream.wait())


main()
