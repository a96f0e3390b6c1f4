#!/usr/bin/env python3
"""Writes src/quant/iq_tables.cpp from a JSON file of the grids.

usage: make_iq_tables.py iq-tables.json > src/quant/iq_tables.cpp

The JSON has an object a grid: "levels" (the values an entry can take) and "values" (the rows). A row becomes one number
that holds the index of each entry's level, 2 bits for rows of eight and 3 bits for rows of four, first entry lowest.
"""

import json
import sys

GRIDS = [
    ("iq2xxs_grid", "kIq2XxsGrid"),
    ("iq2xs_grid", "kIq2XsGrid"),
    ("iq2s_grid", "kIq2SGrid"),
    ("iq3xxs_grid", "kIq3XxsGrid"),
    ("iq3s_grid", "kIq3SGrid"),
    ("iq1s_grid", "kIq1SGrid"),
]


def packed_rows(grid):
    levels = grid["levels"]
    bits = {8: 2, 4: 3}[grid["row_length"]]
    return [sum(levels.index(value) << (bits * j) for j, value in enumerate(row)) for row in grid["values"]]


def main():
    with open(sys.argv[1], encoding="utf-8") as file:
        tables = json.load(file)
    print("// Written by tools/make_iq_tables.py; see iq_tables.h for the meaning of a number.")
    print('#include "quant/iq_tables.h"\n')
    print("namespace kda {\n")
    print("// clang-format off\n")
    for key, name in GRIDS:
        rows = packed_rows(tables[key])
        print(f"const uint16_t {name}[{len(rows)}] = {{")
        for start in range(0, len(rows), 16):
            print("  " + " ".join(f"{row:#x}," for row in rows[start : start + 16]))
        print("};\n")
    print("// clang-format on\n")
    print("}  // namespace kda")


if __name__ == "__main__":
    main()
