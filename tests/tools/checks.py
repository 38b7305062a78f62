"""Holds what each tool sees of a mirror against the `sqlite3` of the standard library. Called by `run`."""

import csv
import importlib.metadata
import io
import json
import shutil
import sqlite3
import subprocess
import sys
from decimal import Decimal, getcontext

MIRROR, WORK = sys.argv[1], sys.argv[2]
# A value has up to 30 digits; without this, sums have 28.
getcontext().prec = 60
VIEWS = ("contacts_full", "companies_full")
# More digits than a double has, and trailing zeros: lost by a tool that reads these as numbers.
MONEY = "SELECT id, cf_credit_limit FROM companies WHERE cf_credit_limit IS NOT NULL ORDER BY id"


class Skipped(Exception):
    """The tool is not here."""


def needs(package):
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        raise Skipped(f"{package} is not installed") from None


class Truth:
    """The mirror as the standard library reads it."""

    def __init__(self):
        conn = sqlite3.connect(f"file:{MIRROR}?mode=ro", uri=True)
        listed = conn.execute(
            "SELECT name FROM sqlite_master WHERE type IN ('table', 'view')"
            " AND name NOT LIKE 'sqlite!_%' ESCAPE '!' ORDER BY name"
        )
        self.names = [name for (name,) in listed]
        # The shadow tables of a search table are internal.
        searches = [name for name in self.names if name.endswith("_search")]
        self.names = [n for n in self.names if not any(n.startswith(s + "_") for s in searches)]
        self.rows = {n: conn.execute(f'SELECT count(*) FROM "{n}"').fetchone()[0] for n in self.names}
        self.searches = searches
        self.money = conn.execute(MONEY).fetchall()
        self.total = sum(Decimal(text) for _, text in self.money)
        self.columns = {v: [d[0] for d in conn.execute(f"SELECT * FROM {v}").description] for v in VIEWS}
        self.views = {v: conn.execute(f"SELECT * FROM {v} ORDER BY id").fetchall() for v in VIEWS}
        conn.close()
        assert self.rows["contacts"] > 100 and self.rows["companies"] > 10, self.rows
        assert all(self.rows[view] == self.rows[view.removesuffix("_full")] for view in VIEWS)
        assert any(len(text.replace(".", "").lstrip("-")) > 17 for _, text in self.money), "no long decimal"


def same(what, seen, expected):
    assert seen == expected, f"{what}: {str(seen)[:300]} instead of {str(expected)[:300]}"


def run(*words, **more):
    done = subprocess.run(words, capture_output=True, text=True, check=False, **more)
    assert done.returncode == 0, f"{' '.join(words)}: {done.stderr[-500:]}"
    return done.stdout


def shell(truth):
    if not shutil.which("sqlite3"):
        raise Skipped("there is no sqlite3 on the PATH")
    for name in truth.names:
        same(name, int(run("sqlite3", "-readonly", MIRROR, f'SELECT count(*) FROM "{name}"')), truth.rows[name])
    # One view per line, as wide as users see it.
    seen = json.loads(run("sqlite3", "-readonly", "-json", MIRROR, "SELECT * FROM contacts_full ORDER BY id"))
    same("columns", list(seen[0]), truth.columns["contacts_full"])
    same("rows", len(seen), truth.rows["contacts"])
    seen = csv.reader(io.StringIO(run("sqlite3", "-readonly", "-csv", MIRROR, MONEY)))
    same("decimals", [tuple(row) for row in seen], truth.money)
    return run("sqlite3", "--version").split()[0]


def datasette(truth):
    version = needs("datasette")

    def get(path, **asked):
        from urllib.parse import urlencode

        query = "&" + urlencode(asked) if asked else ""
        return json.loads(run("datasette", MIRROR, "--get", f"/mirror{path}.json?_shape=objects{query}"))

    listed = get("")
    for table in listed["tables"]:
        if table["name"] in truth.rows and table["count"] is not None:
            same(table["name"], table["count"], truth.rows[table["name"]])
    missing = set(truth.names) - {t["name"] for t in listed["tables"]} - {v["name"] for v in listed["views"]}
    same("not listed", missing, set())
    for view in VIEWS:
        page = get(f"/{view}", _size=5, _sort="id")
        same(view, page["filtered_table_rows_count"], truth.rows[view])
        same(view, [tuple(row.values()) for row in page["rows"]], truth.views[view][:5])
    rows = get("", sql=MONEY, _size="max")["rows"]
    same("decimals", [tuple(row.values()) for row in rows], truth.money)
    # Foreign keys are shown as links: the owner and the company of a contact.
    keys = {key["column"] for t in listed["tables"] if t["name"] == "contacts" for key in t["foreign_keys"]["outgoing"]}
    same("foreign keys", keys, {"company_id", "owner_id"})
    return version


def sqlite_utils(truth):
    version = needs("sqlite-utils")
    uri = sqlite3.connect(f"file:{MIRROR}?mode=ro", uri=True)
    import sqlite_utils as tool

    db = tool.Database(uri)
    for name in truth.names:
        same(name, next(db.query(f'SELECT count(*) AS n FROM "{name}"'))["n"], truth.rows[name])
    same("views", set(db.view_names()), {n for n in db.view_names() if n in truth.rows})
    assert all(db[name].strict for name in ("contacts", "companies", "changes"))
    for view in VIEWS:
        same(view, [tuple(row.values()) for row in db.query(f"SELECT * FROM {view} ORDER BY id")], truth.views[view])
    uri.close()
    # The command opens the file for writing, too, and must not damage it.
    rows = json.loads(run("sqlite-utils", "query", MIRROR, MONEY))
    same("decimals", [tuple(row.values()) for row in rows], truth.money)
    return version


def pandas(truth):
    version = needs("pandas")
    import pandas as tool

    conn = sqlite3.connect(f"file:{MIRROR}?mode=ro", uri=True)
    for view in VIEWS:
        frame = tool.read_sql(f"SELECT * FROM {view} ORDER BY id", conn)
        same(view, list(frame.columns), truth.columns[view])
        same(view, len(frame), truth.rows[view])
        same(view, list(frame["id"]), [row[0] for row in truth.views[view]])
        known = frame["updated_at"].dropna()
        moments = tool.to_datetime(known, utc=True, format="%Y-%m-%dT%H:%M:%S.%fZ")
        same("timestamps", list(moments.dt.strftime("%Y-%m-%dT%H:%M:%S.%fZ")), list(known))
    frame = tool.read_sql(MONEY, conn)
    same("decimals", list(frame.itertuples(index=False, name=None)), truth.money)
    same("sum", sum(frame["cf_credit_limit"].map(Decimal)), truth.total)
    conn.close()
    return version


def duckdb(truth):
    version = needs("duckdb")
    needs("duckdb-extension-sqlite-scanner")
    import duckdb as tool
    from duckdb_extensions import import_extension

    import_extension("sqlite_scanner")
    db = tool.connect()
    db.execute("LOAD sqlite_scanner")
    db.execute(f"ATTACH '{MIRROR}' AS mirror (TYPE sqlite, READ_ONLY)")
    # It parses and prints every view of the file for these, as DBeaver and dbt do.
    db.execute("SELECT count(*) FROM information_schema.tables")
    listed = {row[2] for row in db.execute("SHOW ALL TABLES").fetchall() if row[0] == "mirror"}
    listed |= {row[0] for row in db.execute("SELECT view_name FROM duckdb_views() WHERE database_name = 'mirror'").fetchall()}
    same("not listed", set(truth.names) - set(truth.searches) - listed, set())
    for name in truth.names:
        # It reads views with its own JSON functions, which see other rows.
        if name in truth.searches or name.endswith("_history"):
            continue
        # It counts `*` by the row id, which tables WITHOUT ROWID do not have; a column that is never NULL works.
        key = db.execute(f'SELECT * FROM mirror."{name}" LIMIT 0').description[0][0]
        same(name, db.execute(f'SELECT count("{key}") FROM mirror."{name}"').fetchone()[0], truth.rows[name])
    same("decimals", db.execute(MONEY.replace("companies", "mirror.companies")).fetchall(), truth.money)
    exact = "sum(cf_credit_limit::DECIMAL(38, 10))"
    total = f"SELECT {exact} FROM mirror.companies_full"
    same("exact sum", db.execute(total).fetchone()[0], truth.total)
    for view in VIEWS:
        same(view, [d[0] for d in db.execute(f"SELECT * FROM mirror.{view} LIMIT 1").description], truth.columns[view])
        there = f"{WORK}/{view}.parquet"
        db.execute(f"COPY (SELECT * FROM mirror.{view} ORDER BY id) TO '{there}' (FORMAT parquet)")
        same(view, db.execute(f"SELECT * FROM '{there}' ORDER BY id").fetchall(), truth.views[view])
    again = f"SELECT {exact} FROM '{WORK}/companies_full.parquet'"
    same("sum from Parquet", db.execute(again).fetchone()[0], truth.total)
    db.close()
    return version


def main():
    truth = Truth()
    failed = ran = 0
    lines = []
    for check in (shell, datasette, sqlite_utils, pandas, duckdb):
        name = check.__name__.replace("_", "-").replace("shell", "sqlite3 shell")
        try:
            version = check(truth)
        except Skipped as why:
            lines.append(f"skipped  {name}: {why}")
        except Exception as error:  # every exception of a tool is a failed check
            failed += 1
            lines.append(f"FAILED   {name}: {type(error).__name__}: {str(error)[:600]}")
        else:
            ran += 1
            lines.append(f"ok       {name} {version}")
    same("after all of them", Truth().rows, truth.rows)
    print("\n".join(lines))
    print(f"{ran} ran and found {sum(truth.rows.values())} rows in {len(truth.names)} tables and views, {failed} failed")
    return 1 if failed or not ran else 0


sys.exit(main())
