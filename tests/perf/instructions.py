#!/usr/bin/python3
"""Counts the instructions of fixed work under valgrind and compares them with counts.json.

    tests/perf/instructions.py [--update] [--program build/release/bin/perf_cases]

Fails when a case takes over 2 % more than its count, or when cases and counts do not match; --update accepts what it
finds. Counts do not depend on what else the machine does, but on the compiler, its flags and the C library: where they
are others than those of counts.json, the comparison is skipped (exit status 77), as it is without valgrind or AVX2.
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

FOLDER = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(FOLDER))
COUNTS = os.path.join(FOLDER, "counts.json")
TOLERANCE = 0.02
FUNCTION = "kda_perf_counted"  # of perf_cases
SKIPPED = 77


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


def has_avx2():
    try:
        with open("/proc/cpuinfo") as f:
            return re.search(r"^flags\s*:.*\bavx2\b.*\bfma\b|^flags\s*:.*\bfma\b.*\bavx2\b", f.read(), re.M) is not None
    except OSError:
        return False


def count(program):
    """{case: instructions}, in the order of the program."""
    with tempfile.TemporaryDirectory() as folder:
        dumps = os.path.join(folder, "dumps")
        run = subprocess.run(
            ["valgrind", "--tool=callgrind", f"--callgrind-out-file={dumps}", "--combine-dumps=yes",
             f"--toggle-collect={FUNCTION}", f"--zero-before={FUNCTION}", f"--dump-after={FUNCTION}", program,
             os.path.join(SOURCE, "models", "demo")], capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"the cases ended with status {run.returncode}:\n{run.stderr}")
        # The dumps are a file of parts, each with what triggered it and the sum of its lines.
        counts = []
        with open(dumps) as f:
            for line in f:
                if line.startswith("desc: Trigger: "):
                    of_case = "--dump-after=" in line
                elif line.startswith("totals: ") and of_case:
                    counts.append(int(line.split()[1]))
    names = run.stdout.split()
    if len(names) != len(counts):
        sys.exit(f"valgrind wrote {len(counts)} counts, expected one for each of {len(names)} cases")
    return dict(zip(names, counts))


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--program", default=os.path.join(SOURCE, "build", "release", "bin", "perf_cases"))
    ap.add_argument("--update", action="store_true", help="write what is found to counts.json")
    args = ap.parse_args()
    if shutil.which("valgrind") is None:
        skip("needs valgrind")
    if not has_avx2():  # the scalar cases as well: the C library chooses other functions there
        skip("the counts are those of a processor with AVX2")
    if not os.path.exists(args.program):
        sys.exit(f"{args.program}: not there, build it with: cmake --build build/release --target perf_cases")
    build = subprocess.run([args.program, "--build"], check=True, capture_output=True, text=True).stdout.strip()
    with open(COUNTS) as f:
        reference = json.load(f)
    if not args.update and build != reference["build"]:
        skip(f"counts.json is of '{reference['build']}', this build is of '{build}'")

    found = count(args.program)
    expected = reference["counts"]
    wrong = []
    for name in expected.keys() - found.keys():
        wrong.append(f"{name}: counts.json has it, perf_cases does not")
    for name, n in found.items():
        if name not in expected:
            wrong.append(f"{name}: counts.json has no count, {n:,} instructions found")
            continue
        change = n / expected[name] - 1
        text = f"{name}: {expected[name]:,} instructions expected, {n:,} found ({change:+.1%})"
        if change > TOLERANCE:
            wrong.append(text)
        elif change < -TOLERANCE:
            print(f"cheaper: {text}")
    for text in wrong:
        print(f"{'accepted' if args.update else 'wrong'}: {text}")
    if args.update:
        with open(COUNTS, "w") as f:
            json.dump({"build": build, "counts": found}, f, indent=1)
            f.write("\n")
        print(f"{len(found)} counts written to tests/perf/counts.json")
    elif wrong:
        sys.exit("Where the change is wanted, commit the new counts: tests/perf/instructions.py --update")
    else:
        print(f"{len(found)} cases take no more than {TOLERANCE:.0%} over their counts")


if __name__ == "__main__":
    main()
