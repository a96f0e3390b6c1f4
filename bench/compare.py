#!/usr/bin/python3
"""Speed of kda beside llama.cpp on the same GGUF file, interleaved in one run: medians and their ratio.

    compare.py MODEL.gguf --peer FOLDER [--kda build/release/bin/kda] [--threads 2] [--prompt 512] [--generate 32] [--rounds 3]

FOLDER is a scratch folder outside the repository with `npm install --ignore-scripts node-llama-cpp@3.22.1` done in it. The peer runs
at its default (repacked weights) with flash attention on and off; the better of the two counts. kda's rates are those of
`kda run --json`: the prompt is random text of about --prompt tokens.
"""
import argparse
import json
import os
import random
import shutil
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))


def random_text(kda, model, n):
    """Text of n random tokens (it may tokenise to a few more or less; rates count what was computed)."""
    draw = random.Random(1)
    ids = " ".join(str(draw.randrange(1000, 21000)) for _ in range(n))
    run = subprocess.run([kda, "tokenize", model, "--ids"], input=ids.encode(), capture_output=True, check=True)
    return run.stdout.decode(errors="replace")  # random tokens hold halves of characters


def ours(a, text):
    run = subprocess.run([a.kda, "run", a.model, "-", "--raw", "--json", "--temperature", "0", "--ignore-eos", "--threads", str(a.threads),
                          "--max-tokens", str(a.generate), "--ctx", str(2 * a.prompt + a.generate + 64), "--quiet"],
                         input=text, capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"kda ended with {run.returncode}: {run.stderr}")
    t = json.loads(run.stdout)["timings"]
    return t["prompt_tokens_per_second"], t["generation_tokens_per_second"]


def peer(a, flash):
    shutil.copy(os.path.join(HERE, "peer.mjs"), os.path.join(a.peer, "peer.mjs"))
    run = subprocess.run(["node", "peer.mjs", os.path.abspath(a.model), "--threads", str(a.threads), "--prompt", str(a.prompt), "--generate",
                          str(a.generate), "--reps", "2", "--fa", str(int(flash))], cwd=a.peer, capture_output=True, text=True)
    rows = [json.loads(line) for line in run.stdout.splitlines() if line.startswith("{")]
    if run.returncode or not rows:
        sys.exit(f"the peer ended with {run.returncode}: {run.stderr[-2000:]}")
    return max(r["prompt_tps"] for r in rows), max(r["generate_tps"] for r in rows)  # its second repetition is the warm one


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("model")
    ap.add_argument("--peer", required=True)
    ap.add_argument("--kda", default=os.path.join(HERE, "..", "build", "release", "bin", "kda"))
    ap.add_argument("--threads", type=int, default=2)
    ap.add_argument("--prompt", type=int, default=512)
    ap.add_argument("--generate", type=int, default=32)
    ap.add_argument("--rounds", type=int, default=3)
    a = ap.parse_args()
    text = random_text(a.kda, a.model, a.prompt)
    mine, theirs = [], []
    for r in range(a.rounds):
        theirs.append([max(x) for x in zip(peer(a, True), peer(a, False))])
        mine.append(ours(a, text))
        print(f"round {r + 1}: llama.cpp {theirs[-1][0]:.1f} and {theirs[-1][1]:.2f} t/s, kda {mine[-1][0]:.1f} and {mine[-1][1]:.2f} t/s", flush=True)
    for i, phase in enumerate((f"prefill {a.prompt}", f"decode {a.generate}")):
        us, them = (statistics.median(x[i] for x in rows) for rows in (mine, theirs))
        print(f"{phase}: kda {us:.2f} t/s, llama.cpp {them:.2f} t/s, ratio {us / them:.2f}")


if __name__ == "__main__":
    main()
