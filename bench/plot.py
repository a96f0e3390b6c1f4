#!/usr/bin/python3
"""Draw the speed of prompts and of generation against the depth, as SVG, with gnuplot.

    plot.py RESULT.json [RESULT.json ...] -o speed.svg

A RESULT is what `compare.py --json` (both engines) or `kda bench -o json` (kda alone) wrote. Bars show the slowest and the fastest
repetition. Files of several machines or versions become lines of their own, named after the files.
"""
import argparse
import json
import os
import shutil
import subprocess
import sys

KINDS = (("prompt", "prompt"), ("generation", "generation"))


def fail(message):
    sys.exit(f"plot.py: error: {message}")


def series(path, several):
    """{(kind, label): [(depth, median, least, most)]} of one file, and the model's name."""
    try:
        with open(path) as f:
            data = json.load(f)
    except (OSError, ValueError) as e:
        fail(f"{path}: {e}")
    name = f", {os.path.splitext(os.path.basename(path))[0]}" if several else ""
    out = {}

    def add(kind, tokens, label, depth, rate, rates, setting=""):
        label = f"{label} {'pp' if kind == 'prompt' else 'tg'}{tokens}{setting}{name}"
        out.setdefault((kind, label), []).append((depth, rate, min(rates), max(rates)))
    if "tests" in data:
        for t in data["tests"]:
            add(t["kind"], t["tokens"], "kda", t["depth"], t["kda"], t["kda_rates"])
            add(t["kind"], t["tokens"], "llama.cpp", t["depth"], t["peer"], t["peer_rates"])
    elif "rows" in data:
        n_kinds = len({r["kind"] for r in data["rows"]})
        varying = [key for key in ("threads", "batch") if len({(r["kind"], r[key]) for r in data["rows"]}) > n_kinds]
        for r in data["rows"]:
            add(r["kind"], r["tokens"], "kda", r["depth"], r["tokens_per_second"], [r["tokens"] / s for s in r["seconds"]],
                "".join(f", {key} {r[key]}" for key in varying))
    else:
        fail(f"{path}: neither `tests` of compare.py nor `rows` of kda bench in it")
    return {k: sorted(v) for k, v in out.items()}, data.get("model", "")


def quoted(text):
    return "'" + str(text).replace("'", "''") + "'"


def script(lines, title, out):
    """One panel a kind, for those that have results."""
    kinds = [(k, name) for k, name in KINDS if any(kind == k for kind, _ in lines)]
    text = [f"set terminal svg size {480 * len(kinds)},400 dynamic font 'sans-serif,13' background rgb 'white'", f"set output {quoted(out)}",
            f"set multiplot layout 1,{len(kinds)} title {quoted(title)} noenhanced", "set grid ytics lc rgb '#dddddd'", "set border 3",
            "set tics nomirror", "set xlabel 'tokens in the context before'", "set key below noenhanced", "set yrange [0:*]"]
    for i, ((kind, label), points) in enumerate(lines.items()):
        text += [f"$data{i} << END", *(" ".join(map(str, p)) for p in points), "END"]
    for k, name in kinds:
        mine = [(i, label) for i, (kind, label) in enumerate(lines) if kind == k]
        text.append(f"set ylabel {quoted(name + ', tokens/s')}")
        text.append("plot " + ", ".join(
            f"$data{i} using 1:2 with lines lw 2 lc {n + 1} title {quoted(label)}, "
            f"$data{i} using 1:2:3:4 with yerrorbars pt 7 ps 0.5 lw 1 lc {n + 1} notitle" for n, (i, label) in enumerate(mine)))
    return "\n".join([*text, "unset multiplot", "set output"]) + "\n"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("results", nargs="+", metavar="RESULT.json")
    ap.add_argument("-o", "--output", required=True, metavar="FILE.svg")
    ap.add_argument("--title", help="(default: the model's name)")
    a = ap.parse_args()
    lines, title = {}, ""
    for path in a.results:
        found, title = series(path, len(a.results) > 1)
        lines.update(found)
    if not lines:
        fail("nothing was measured in these files")
    if not shutil.which("gnuplot"):
        fail("gnuplot is not installed (Debian and Ubuntu: apt install gnuplot-nox)")
    run = subprocess.run(["gnuplot"], input=script(lines, a.title or title, a.output), capture_output=True, text=True)
    if run.returncode or not os.path.exists(a.output):
        fail(f"gnuplot ended with {run.returncode}: {run.stderr.strip()}")


if __name__ == "__main__":
    main()
