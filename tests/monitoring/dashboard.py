#!/usr/bin/env python3
"""Writes every query of the Grafana dashboard as a rule, for promtool to parse, and checks the panels.

    tests/monitoring/dashboard.py DASHBOARD RULES
"""

import json
import re
import sys

with open(sys.argv[1], encoding="utf-8") as file:
    dashboard = json.load(file)
variables = {variable["name"] for variable in dashboard["templating"]["list"]}
rules, ids, places = [], set(), set()
for panel in dashboard["panels"]:
    for member in ("id", "type", "title", "gridPos", "targets", "fieldConfig"):
        if member not in panel:
            sys.exit(f"FAILED: panel {panel.get('title')} has no {member}")
    if panel["id"] in ids:
        sys.exit(f"FAILED: two panels have the id {panel['id']}")
    ids.add(panel["id"])
    grid = panel["gridPos"]
    cells = {(grid["x"] + x, grid["y"] + y) for x in range(grid["w"]) for y in range(grid["h"])}
    if grid["x"] + grid["w"] > 24 or cells & places:
        sys.exit(f"FAILED: panel {panel['title']} lies over another, or outside")
    places |= cells
    for target in panel["targets"]:
        used = set(re.findall(r"\$\{?([a-z]\w*)", target["expr"] + target["datasource"]["uid"]))
        if not used <= variables:
            sys.exit(f"FAILED: panel {panel['title']} uses {used - variables}, which is no variable")
        query = target["expr"].replace("$instance", ".*")
        rules.append({"record": f"dashboard:query:{len(rules)}", "expr": query})
with open(sys.argv[2], "w", encoding="utf-8") as file:
    json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)
