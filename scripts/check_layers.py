#!/usr/bin/python3
"""Checks every #include of src/ against the layering table of docs/architecture.md, and the length of files."""
import os
import re
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
MOST_LINES = 900


def allowed_includes():
    """{folder: set of folders it may include}, from the table under '## Layers'."""
    with open(os.path.join(ROOT, "docs", "architecture.md")) as f:
        section = f.read().split("## Layers", 1)[1].split("\n## ", 1)[0]
    table = {}
    for folders, may in re.findall(r"^\| `([^|]*)` \| ([^|]*) \|$", section, re.M):
        for folder in re.split(r"`, `", folders):
            table[folder] = {folder, *re.findall(r"`([a-z]+)`", may)}
    return table


def main():
    table, bad = allowed_includes(), []
    for here, _, files in os.walk(os.path.join(ROOT, "src")):
        for name in sorted(files):
            if not name.endswith((".h", ".cpp")):
                continue
            path = os.path.relpath(os.path.join(here, name), ROOT)
            folder = path.split(os.sep)[1]
            if folder not in table:
                bad.append(f"{path}: folder {folder} is not in the table of docs/architecture.md")
                continue
            with open(os.path.join(ROOT, path)) as f:
                lines = f.read().split("\n")
            if len(lines) > MOST_LINES:
                bad.append(f"{path}: {len(lines)} lines, at most {MOST_LINES} are allowed")
            for number, line in enumerate(lines, 1):
                found = re.match(r'#include "([a-z0-9_]+)/', line)
                if found and found.group(1) not in table[folder]:
                    bad.append(f"{path}:{number}: {folder} may not include {found.group(1)}")
    print("\n".join(bad) if bad else f"layers: {len(table)} folders keep to docs/architecture.md")
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
