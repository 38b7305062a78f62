#!/usr/bin/env python3
"""Plants each kind of trouble in a real daemon, scrapes its /metrics, and lets promtool say which alerts fire.

    tests/monitoring/planted.py PROGRAM [TROUBLE…]

Each trouble must fire its own alert and no other. What is scraped is held for a day; times are made relative, because
promtool's clock begins at zero. `cargo test --test daemon alerts::` lets the time of a daemon pass instead.
"""

import json
import os
import re
import signal
import sqlite3
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request

PROGRAM = os.path.abspath(sys.argv[1])
RULES = os.path.abspath("docs/monitoring/alerts.yml")
MINUTES = 1440


class Place:
    """A folder with a sandbox, a configuration and a daemon."""

    def __init__(self, sandbox=(), settings=()):
        self.dir = tempfile.TemporaryDirectory()
        self.crm = self.start(["sandbox", "--port", "0", "--contacts", "200", "--companies", "20", *sandbox])
        self.url, self.key = (self.crm.stdout.readline().decode().split(": ")[1].strip() for _ in range(2))
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.http = "127.0.0.1:%d" % free.getsockname()[1]
        self.settings = {
            "api.base_url": self.url,
            "api.key_file": "key",
            "database.path": "mirror.db",
            "sync.schedule": "off",
            "sync.audit_schedule": "off",
            "sync.sweep_schedule": "off",
            "sync.details": "off",
            "daemon.http": self.http,
            "write_back.enabled": True,
            **dict(settings),
        }
        self.configure()
        self.set_key(self.key)
        self.daemon = None

    def configure(self, junk=""):
        lines = [f"{key} = {json.dumps(value)}" for key, value in self.settings.items()]
        self.write("config.toml", "\n".join(lines) + "\n" + junk)

    def set_key(self, key):
        self.write("key", key)

    def write(self, name, text):
        with open(os.path.join(self.dir.name, name), "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(file.name, 0o600)

    def start(self, args):
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        return subprocess.Popen([PROGRAM, *args], cwd=self.dir.name, **pipes)

    def run(self, *args):
        command = [PROGRAM, "--config", "config.toml", *args]
        return subprocess.run(command, cwd=self.dir.name, capture_output=True, text=True, check=False, timeout=60)

    def run_daemon(self):
        self.daemon = self.start(["--config", "config.toml", "daemon"])
        self.until(lambda: self.scrape() is not None and self.is_open(), "the daemon")

    def is_open(self):
        """Whether the daemon has opened its mirror: its page is there before."""
        status = json.loads(self.run("status", "--json").stdout or "{}")
        return (status.get("daemon") or {"waiting_for": "it"})["waiting_for"] is None

    def scrape(self):
        try:
            with urllib.request.urlopen(f"http://{self.http}/metrics", timeout=10) as answer:
                return answer.read().decode()
        except OSError:
            return None

    def shows(self, metric, value):
        return re.search(rf"^{metric}\{{.*\}} {value}$", self.scrape() or "", re.MULTILINE)

    @staticmethod
    def until(holds, what):
        deadline = time.monotonic() + 60
        while not holds():
            if time.monotonic() > deadline:
                sys.exit(f"FAILED: {what} did not come")
            time.sleep(0.1)

    def admin(self, verb, body):
        url = self.url.replace("/v1", f"/_sandbox/{verb}")
        urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())).read()

    def sql(self, statement):
        connection = sqlite3.connect(os.path.join(self.dir.name, "mirror.db"))
        with connection:
            return connection.execute(statement).fetchall()

    def end(self):
        for process in (self.daemon, self.crm):
            if process is not None:
                process.terminate()
                process.wait()
        self.dir.cleanup()


def copied(**arguments):
    """A daemon whose mirror is copied."""
    place = Place(**arguments)
    place.run_daemon()
    ran = place.run("sync")
    if ran.returncode:
        sys.exit(f"FAILED: a first copy: {ran.stdout}{ran.stderr}")
    return place


def normal():
    place = copied()
    place.run("sync")
    return place


def stale():
    """The service fails, and the last success is an hour ago."""
    place = copied()
    place.settings["sync.schedule"] = "*/5 * * * *"
    place.configure()
    place.daemon.terminate()
    place.daemon.wait()
    hour_ago = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 3600))
    value = json.dumps({"began": hour_ago, "finished": hour_ago})
    place.sql(f"UPDATE state SET value = '{value}' WHERE name LIKE 'caught_up:%' OR name LIKE 'swept:%'")
    place.admin("faults", {"fault": "503:100%"})
    place.run_daemon()
    return place


def hold():
    """A 429 whose Retry-After is two hours ahead."""
    place = copied()
    place.daemon.terminate()
    place.daemon.wait()
    place.admin("faults", {"fault": "429:100%"})
    # A short wait is waited for: it ends when the hold is stored.
    sync = place.start(["--config", "config.toml", "sync"])
    held = "SELECT value FROM state WHERE name = 'hold'"
    place.until(lambda: place.sql(held), "a hold after a 429")
    sync.kill()
    sync.wait()
    [(value,)] = place.sql(held)
    # The sandbox asks for less than any service may.
    stored = json.loads(value)
    stored["until"] = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + 7200))
    stored.pop("steady", None)
    place.sql(f"UPDATE state SET value = '{json.dumps(stored)}' WHERE name = 'hold'")
    place.run_daemon()
    return place


def conflict():
    place = copied()
    place.run("pause")
    [(record,)] = place.sql("SELECT id FROM contacts ORDER BY id LIMIT 1")
    place.run("edit", "contact", record, "position=Ours")
    place.admin("change", {"object": "contact", "id": record, "fields": {"position": "Theirs"}})
    place.run("push")
    place.run("resume")
    return place


def scope():
    place = Place(sandbox=("--key", "narrow=contacts:read,custom-fields:read,team-members:read"), settings={"write_back.enabled": False}.items())
    place.set_key("narrow")
    place.run_daemon()
    place.run("sync")
    return place


def refusal():
    place = copied()
    for (record,) in place.sql("SELECT id FROM contacts ORDER BY id LIMIT 120"):
        place.admin("delete", {"object": "contact", "id": record})
    place.run("resync")
    return place


def reload():
    place = copied()
    place.configure(junk="[sync]\nshedule = 1\n")
    place.daemon.send_signal(signal.SIGHUP)
    place.until(lambda: place.shows("crm_mirror_reload_failed", 1), "the failed reload")
    return place


def budget():
    place = copied()
    spent = place.sql("SELECT sum(ru) FROM sync_runs")[0][0]
    place.settings["budget.limit"] = spent
    place.configure()
    place.daemon.send_signal(signal.SIGHUP)
    place.until(lambda: place.shows("crm_mirror_ru_left", 0), "the smaller budget")
    return place


def down():
    place = copied()
    place.daemon.kill()
    place.daemon.wait()
    return place


# Each trouble, the alert that it fires, and how long that may take.
TROUBLES = [
    (normal, None),
    (stale, "CrmMirrorStale"),
    (hold, "CrmMirrorHold"),
    (conflict, "CrmMirrorEditsNeedAttention"),
    (scope, "CrmMirrorMissingScope"),
    (refusal, "CrmMirrorRemovalRefused"),
    (reload, "CrmMirrorReloadFailed"),
    (budget, "CrmMirrorBudgetExhausted"),
    (down, "CrmMirrorDown"),
]


def series(page, now):
    """The scraped samples as constant series of promtool."""
    found = [{"series": 'up{job="crm-mirror",instance="a"}', "values": f"{0 if page is None else 1}x{MINUTES}"}]
    for line in (page or "").splitlines():
        sample = re.fullmatch(r"([a-z_]+)(?:\{(.*)\})? (\S+)", line)
        if not sample or line.startswith("#") or "_duration_seconds" in line:
            continue
        name, labels, value = sample[1], sample[2], float(sample[3])
        if name.endswith("_timestamp_seconds") and value > 0:
            value = max(0.0, value - now)
        if name == "crm_mirror_hold_until_timestamp_seconds" and value > 0:
            # Every scrape finds the same time ahead of it, as of a service that repeats itself.
            values = f"{value}+60x{MINUTES}"
        else:
            values = f"{value}x{MINUTES}"
        all_labels = ",".join(part for part in ('job="crm-mirror"', 'instance="a"', labels) if part)
        found.append({"series": f"{name}{{{all_labels}}}", "values": values})
    return found


def alerts(page, folder):
    """The names of the alerts that fire after an hour, or at any time within a day where there are none."""
    names = re.findall(r"- alert: (\w+)", open(RULES, encoding="utf-8").read())
    expected_none = [
        {"eval_time": moment, "alertname": name, "exp_alerts": []} for name in names for moment in ("1h", f"{MINUTES}m")
    ]
    test = {"interval": "1m", "input_series": series(page, time.time()), "alert_rule_test": expected_none}
    path = os.path.join(folder, "test.yml")
    with open(path, "w", encoding="utf-8") as file:
        # JSON is YAML too.
        json.dump({"rule_files": [RULES], "evaluation_interval": "1m", "tests": [test]}, file)
    ran = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, check=False)
    said = ran.stdout + ran.stderr
    firing = [name for name in names if f"alertname: {name}," in said]
    if ran.returncode and not firing:
        sys.exit(f"FAILED: promtool: {said}")
    return firing


def main():
    wanted = sys.argv[2:] or [plant.__name__ for plant, _ in TROUBLES]
    for plant, expected in (trouble for trouble in TROUBLES if trouble[0].__name__ in wanted):
        place = plant()
        try:
            page = place.scrape()
            with tempfile.TemporaryDirectory() as folder:
                firing = alerts(page, folder)
        finally:
            place.end()
        if firing != ([expected] if expected else []):
            sys.exit(f"FAILED: {plant.__name__} fires {firing}, and should fire {expected}\n{page}")
        print(f"ok: {plant.__name__}: {expected or 'nothing in a day'}")


main()
