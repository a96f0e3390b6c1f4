#!/usr/bin/python3
"""Decode rate of a model alone and beside busy loops on each processor: beside one, a fair share is half.

    bench/beside_load.py MODEL [--loops 1] [--tokens 32] [--rounds 3] [--threads N] [--kda build/release/bin/kda]

Threads that wait for each other could lose whole time slices to the loops at every step of a layer, and a token could
take ten times as long. Rounds alternate, so that what else runs on the machine meets both; needs a calm machine all the
same, and says how busy it was.
"""
import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
LOOP = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[1])})
while os.getppid() == int(sys.argv[2]):
    for _ in range(10 ** 6): pass
"""


@contextlib.contextmanager
def busy_processors(n_loops):
    loops = [subprocess.Popen([sys.executable, "-c", LOOP, str(p), str(os.getpid())])
             for p in os.sched_getaffinity(0) for _ in range(n_loops)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def decode_rate(args):
    command = [args.kda, "bench", args.model, "-p", "0", "-n", str(args.tokens), "-r", "1", "-o", "json"]
    if args.threads:
        command += ["-t", str(args.threads)]
    result = subprocess.run(command, check=True, capture_output=True, text=True)
    row = json.loads(result.stdout)["rows"][0]
    return row["tokens_per_second"], row["threads"]


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("model")
    ap.add_argument("--loops", type=int, default=1, help="on each processor")
    ap.add_argument("--tokens", type=int, default=32)
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--threads", type=int)
    ap.add_argument("--kda", default=os.path.join(SOURCE, "build", "release", "bin", "kda"))
    args = ap.parse_args()
    print(f"{len(os.sched_getaffinity(0))} processors, load before: {os.getloadavg()[0]:.1f}")
    ratios = []
    for i in range(args.rounds):
        alone, threads = decode_rate(args)
        with busy_processors(args.loops):
            beside, _ = decode_rate(args)
        ratios.append(beside / alone)
        print(f"round {i + 1}, {threads} threads: alone {alone:.2f} tokens/s, beside the loops {beside:.2f}, "
              f"share {ratios[-1]:.2f}")
    print(f"share: {statistics.median(ratios):.2f} (a fair one is {1 / (1 + args.loops):.2f})")


if __name__ == "__main__":
    main()
