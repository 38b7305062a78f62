#!/usr/bin/env python3
"""Plants the troubles of docs/operations.md that need a process of their own: a signal, and a daemon that is killed.

    tests/monitoring/planted.py PROGRAM

Each trouble must fire its own alert and no other, and people are told once. What is scraped is held for a day; times are
made relative, because promtool's clock begins at zero. `cargo test --test daemon alerts::` plants the other troubles, in a
daemon whose time passes.
"""

import json
import os
import re
import signal
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

    def __init__(self):
        self.dir = tempfile.TemporaryDirectory()
        self.crm = self.start(["sandbox", "--port", "0", "--contacts", "200", "--companies", "20"])
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
            "notify.command": ["/bin/sh", "-c", f"cat >>{os.path.join(self.dir.name, 'told')}"],
        }
        self.configure()
        self.write("key", self.key)
        self.daemon = None

    def configure(self, junk=""):
        lines = [f"{key} = {json.dumps(value)}" for key, value in self.settings.items()]
        self.write("config.toml", "\n".join(lines) + "\n" + junk)

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

    def told(self):
        """What the notification command has read."""
        try:
            with open(os.path.join(self.dir.name, "told"), encoding="utf-8") as file:
                return [json.loads(line) for line in file]
        except FileNotFoundError:
            return []

    def end(self):
        for process in (self.daemon, self.crm):
            if process is not None:
                process.terminate()
                process.wait()
        self.dir.cleanup()


def copied():
    """A daemon whose mirror is copied."""
    place = Place()
    place.run_daemon()
    ran = place.run("sync")
    if ran.returncode:
        sys.exit(f"FAILED: a first copy: {ran.stdout}{ran.stderr}")
    return place


def reload():
    place = copied()
    place.configure(junk="[sync]\nshedule = 1\n")
    place.daemon.send_signal(signal.SIGHUP)
    place.until(lambda: place.shows("crm_mirror_reload_failed", 1), "the failed reload")
    return place


def down():
    place = copied()
    place.daemon.kill()
    place.daemon.wait()
    return place


# What happens to the daemon, by its name in docs/operations.md.
TROUBLES = {
    "the configuration on disk is invalid": reload,
    "the daemon is killed": down,
}


def listed(name):
    """The alert of a trouble in docs/operations.md, the minutes within which it fires, and the notification, if there is one."""
    page = open("docs/operations.md", encoding="utf-8").read()
    row = re.search(rf"^\| {name} \| `(\w+)` \| (\d+) min \| (?:`([a-z-]+)`|none\b.*) \|$", page, re.MULTILINE)
    return row[1], int(row[2]), row[3]


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
        values = f"{value}x{MINUTES}"
        all_labels = ",".join(part for part in ('job="crm-mirror"', 'instance="a"', labels) if part)
        found.append({"series": f"{name}{{{all_labels}}}", "values": values})
    return found


def alerts(page, folder, minutes):
    """The names of the alerts that fire then, or after a day."""
    names = re.findall(r"- alert: (\w+)", open(RULES, encoding="utf-8").read())
    expected_none = [
        {"eval_time": moment, "alertname": name, "exp_alerts": []} for name in names for moment in (f"{minutes}m", f"{MINUTES}m")
    ]
    test = {"interval": "1m", "input_series": series(page, time.time()), "alert_rule_test": expected_none}
    path = os.path.join(folder, "test.yml")
    with open(path, "w", encoding="utf-8") as file:
        # JSON is YAML too.
        json.dump({"rule_files": [RULES], "evaluation_interval": "1m", "tests": [test]}, file)
    ran = subprocess.run(["promtool", "test", "rules", path], capture_output=True, text=True, check=False)
    said = ran.stdout + ran.stderr
    firing = [name for name in names if said.count(f"alertname: {name},") == 2]
    if ran.returncode and not firing:
        sys.exit(f"FAILED: promtool: {said}")
    return firing


def main():
    for name, plant in TROUBLES.items():
        alert, minutes, notification = listed(name)
        place = plant()
        try:
            page = place.scrape()
            if notification:
                place.until(place.told, "the notification")
            told = [f"{message['episode']} {message['state']}" for message in place.told()]
            firing = alerts(page, place.dir.name, minutes)
        finally:
            place.end()
        if firing != [alert]:
            sys.exit(f"FAILED: {name}: {firing} fire, and {alert} should\n{page}")
        if told != ([f"{notification} begins"] if notification else []):
            sys.exit(f"FAILED: {name}: people are told {told}")
        print(f"ok: {name}: {alert} within {minutes} minutes, people are told {told}")


main()
