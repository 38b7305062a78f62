"""The sandbox and a mirror of it, which change while what follows the mirror is tested."""

import json
import os
import sqlite3
import subprocess
import time
import urllib.request


def quiet(words, folder, **more):
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=folder, **more)


class Crm:
    """The sandbox and a mirror of it."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        words = [program, "sandbox", "--port", "0", "--contacts", "300", "--companies", "40"]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, cwd=folder)
        self.url, self.key = (self.process.stdout.readline().decode().split(": ")[1].strip() for _ in range(2))
        self.mirror = os.path.join(folder, "mirror.db")
        self.env = {
            "PATH": os.environ["PATH"], "HOME": folder, "CRM_MIRROR_API__BASE_URL": self.url, "CRM_MIRROR_API__KEY": self.key,
            "CRM_MIRROR_DATABASE__PATH": self.mirror,
        }

    def admin(self, verb, body):
        url = self.url.replace("/v1", f"/_sandbox/{verb}")
        return urllib.request.urlopen(urllib.request.Request(url, json.dumps(body).encode())).read()

    def change(self, number):
        """Changes, removals and, in three rounds, another custom field."""
        mirror = sqlite3.connect(f"file:{self.mirror}?mode=ro", uri=True)
        ids = [row[0] for row in mirror.execute("SELECT id FROM contacts ORDER BY random() LIMIT 32")]
        mirror.close()
        for contact in ids[:30]:
            self.admin("change", {"object": "contact", "id": contact, "fields": {"position": f"round {number}"}})
        for contact in ids[30:]:
            self.admin("delete", {"object": "contact", "id": contact})
        self.admin("create", {"object": "contact", "fields": {"name": f"New {number}"}})
        field = {"object": "custom-field", "id": "cf_lake"}
        if number == 2:
            fields = {"key": "lake", "objectType": "contact", "label": "Lake", "dataType": "DECIMAL"}
            self.admin("create", {**field, "fields": fields})
        if number == 3:
            for contact in ids[:9]:
                self.admin("change", {"object": "contact", "id": contact, "fields": {"customFields": {"lake": "12345678901234567890.0123456789"}}})
        if number in (5, 8):
            self.admin("change", {**field, "fields": {"status": "ARCHIVED" if number == 5 else "ACTIVE"}})
        self.admin("clock", {"advance": "7h"})

    def run(self, *words, kill_after=None):
        process = quiet([self.program, *words], self.folder, env=self.env)
        if kill_after is not None:
            time.sleep(kill_after)
            process.kill()
        return process.wait()
