#!/usr/bin/python3
"""Speed and memory of kda beside llama.cpp on the same GGUF file: medians, spreads and ratios of interleaved runs.

    compare.py MODEL.gguf --peer FOLDER [-p 512] [-n 32] [-s 1] [-d 0] [-t 2] [-b 1024] [--rounds 3] [--reps 2] [--json OUT.json]

FOLDER is a scratch folder outside the repository with `npm install --ignore-scripts node-llama-cpp@3.22.1` done in it. -p, -n, -s and
-d are lists, as for `kda bench`: prompts, generations, sequences that generate side by side and the tokens in the context before.

How it measures:
- A round is one process of `kda bench` and then one of the peer, each with all tests; rounds follow each other, A B A B. Whatever else
  the machine does hits both.
- Both sides run every test once uncounted in each process, so that page faults of a cold mapping and first touches of memory count
  for neither; then --reps times, every time from the same state.
- The peer counts at its best: before the rounds it runs every test with flash attention on and off and (prompts) with ubatch 512 and
  2048, and the fastest setting of each test is the one that is then compared. Its weights are repacked at load, as it does by default.
- kda bench feeds given tokens and does not sample; the peer samples greedily, a small part of its time a token.
- First token: from a warm page cache, a prompt of two words and one token generated. kda: the whole process, from its start to its end; the
  peer: from loading the model to the token, without the start of Node.
- Anonymous memory: the most that /proc/PID/status (RssAnon) showed while the longest prompt was read at depth 0.
"""
import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
FIRST_TOKEN_TEXT = "The moon"


def fail(message):
    sys.exit(f"compare.py: error: {message}")


def numbers(text):
    try:
        return [int(x) for x in text.split(",") if int(x) >= 0]
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected numbers as in 512,4096, found {text!r}") from None


def run(command, cwd=None, sample=False):
    """Standard output, seconds, and the most anonymous memory in bytes (0 unless sampled)."""
    peak, done = 0, threading.Event()
    begin = time.perf_counter()
    process = subprocess.Popen(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def watch():
        nonlocal peak
        while not done.wait(0.005):
            try:
                with open(f"/proc/{process.pid}/status") as f:
                    for line in f:
                        if line.startswith("RssAnon:"):
                            peak = max(peak, int(line.split()[1]) * 1024)
            except OSError:  # it has just ended
                return
    watcher = threading.Thread(target=watch) if sample else None
    if watcher:
        watcher.start()
    out, err = process.communicate()
    seconds = time.perf_counter() - begin
    done.set()
    if watcher:
        watcher.join()
    if process.returncode:
        fail(f"{' '.join(command[:3])} ... ended with {process.returncode}: {err.strip()[-2000:]}")
    return out, seconds, peak


class Kda:
    def __init__(self, a):
        self.a = a
        about = json.loads(run([a.kda, "inspect", a.model, "--json"])[0])
        self.name, self.vocab = about["name"] or os.path.basename(a.model), about["vocab_size"]

    def bench(self, prompts, generations, depths, reps, sample=False, warm=True):
        a = self.a
        command = [a.kda, "bench", a.model, "-t", str(a.threads), "-r", str(reps), "-o", "json",
                   "-p", ",".join(map(str, prompts)) or "0", "-n", ",".join(map(str, generations)) or "0",
                   "-s", ",".join(map(str, a.sequences)), "-d", ",".join(map(str, depths))]
        command += ["-b", str(a.batch)] if a.batch else []
        command += [] if warm else ["--no-warm-up"]
        out, _, peak = run(command, sample=sample)
        return json.loads(out), peak

    def first_token(self):
        """Seconds, and the tokens of the prompt."""
        out, seconds, _ = run([self.a.kda, "run", self.a.model, FIRST_TOKEN_TEXT, "--raw", "--temperature", "0", "--ignore-eos",
                               "--max-tokens", "1", "--threads", str(self.a.threads), "--ctx", "128", "--quiet", "--json"])
        return seconds, json.loads(out)["prompt_tokens"]


class Peer:
    def __init__(self, a, vocab):
        self.a = a
        self.vocab = vocab
        if not os.path.isdir(os.path.join(a.peer, "node_modules", "node-llama-cpp")):
            fail(f"{a.peer}: no node-llama-cpp in it; run `npm install --ignore-scripts node-llama-cpp@3.22.1` there")
        self.script = os.path.join(a.peer, "kda-compare-peer.mjs")  # modules are found from where the script lies
        shutil.copy(os.path.join(HERE, "peer.mjs"), self.script)

    def run(self, words, sample=False):
        a = self.a
        out, _, peak = run(["node", self.script, os.path.abspath(a.model), "--threads", str(a.threads), "--vocab", str(self.vocab),
                            *words], cwd=a.peer, sample=sample)
        rows = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        if not rows:
            fail(f"the peer printed no results: {out[-2000:]}")
        return rows, peak

    def bench(self, tests, reps, sample=False):
        """tests: name -> setting, or a list of settings. {(name, setting): [tokens/s]}"""
        words = [f"{name}:{s}" for name, settings in tests.items() for s in ([settings] if isinstance(settings, str) else settings)]
        rows, peak = self.run([*words, "--reps", str(reps)], sample)
        return {tuple(r["test"].split(":", 1)): r["rates"] for r in rows}, peak

    def first_token(self, n_prompt):
        return self.run(["--first-token", str(n_prompt)])[0][0]["first_token_s"]


def spread(rates):
    return f"{min(rates):.2f} .. {max(rates):.2f}"


def table(rows):
    widths = [max(len(r[i]) for r in rows) for i in range(len(rows[0]))]
    for i, row in enumerate(rows):
        print("| " + " | ".join(c.ljust(w) for c, w in zip(row, widths)) + " |")
        if i == 0:
            print("|" + "|".join("-" * (w + 2) for w in widths) + "|")


def compare_speed(a, kda, peer):
    tests = {f"{kind}{n}" + (f"x{s}" if s > 1 else "") + (f"@d{d}" if d else ""): (kind, n, s, d)
             for d in a.depth for kind, ns, side in (("pp", a.prompt, [1]), ("tg", a.generate, a.sequences)) for n in ns for s in side}
    candidates = {name: [f"fa={fa}:ub={ub}" for fa in a.fa for ub in (a.ubatch if kind == "pp" else a.ubatch[:1])]
                  for name, (kind, *_) in tests.items()}
    note("looking for the peer's best settings")
    tried, _ = peer.bench(candidates, 1)
    best = {name: max(settings, key=lambda s: statistics.median(tried[name, s])) for name, settings in candidates.items()}
    ours, theirs, ratios = ({name: [] for name in tests} for _ in range(3))
    for r in range(a.rounds):
        note(f"round {r + 1} of {a.rounds}")
        mine = {row["test"]: row for row in kda.bench(a.prompt, a.generate, a.depth, a.reps)[0]["rows"]}
        other, _ = peer.bench(best, a.reps)
        for name, (_, n, n_sequences, _) in tests.items():
            here = [n * n_sequences / s for s in mine[name]["seconds"]]
            there = other[name, best[name]]
            ours[name] += here
            theirs[name] += there
            ratios[name].append(statistics.median(here) / statistics.median(there))
    result = []
    rows = [["test", "kda tokens/s", "min .. max", "llama.cpp tokens/s", "min .. max", "its setting", "kda / llama.cpp", "of rounds"]]
    for name, (kind, n, n_sequences, d) in tests.items():
        us, them = statistics.median(ours[name]), statistics.median(theirs[name])
        rows.append([name, f"{us:.2f}", spread(ours[name]), f"{them:.2f}", spread(theirs[name]), best[name], f"{us / them:.2f}",
                     spread(ratios[name])])
        result.append({"test": name, "kind": "prompt" if kind == "pp" else "generation", "tokens": n, "sequences": n_sequences, "depth": d,
                       "kda": us, "kda_rates": ours[name], "peer": them, "peer_rates": theirs[name], "peer_setting": best[name],
                       "ratio": us / them, "round_ratios": ratios[name]})
    table(rows)
    return result


def compare_start_and_memory(a, kda, peer):
    note("first tokens and memory")
    n_prompt = kda.first_token()[1]
    peer.first_token(n_prompt)  # uncounted, both: the files come into the page cache
    starts = [(kda.first_token()[0], peer.first_token(n_prompt)) for _ in range(a.rounds)]
    rows = [["", "kda", "min .. max", "llama.cpp", "min .. max", "kda / llama.cpp"]]
    result = {}
    us, them = ([x[i] for x in starts] for i in (0, 1))
    a_us, a_them = statistics.median(us), statistics.median(them)
    rows.append(["warm start to first token, s", f"{a_us:.2f}", spread(us), f"{a_them:.2f}", spread(them), f"{a_us / a_them:.2f}"])
    result["first_token_s"] = {"kda": us, "peer": them}
    if a.prompt:
        n = max(a.prompt)
        us = kda.bench([n], [], [0], 1, sample=True, warm=False)[1]
        them = peer.bench({f"pp{n}": f"fa={a.fa[0]}:ub={a.ubatch[0]}"}, 1, sample=True)[1]
        rows.append([f"peak anonymous memory, pp{n}, MiB", f"{us / 2**20:.0f}", "", f"{them / 2**20:.0f}", "", f"{us / them:.2f}"])
        result["peak_anonymous_bytes"] = {"prompt": n, "kda": us, "peer": them}
    print()
    table(rows)
    return result


def note(text):
    if sys.stderr.isatty():
        print(f"{text} ...", file=sys.stderr, flush=True)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("model")
    ap.add_argument("--peer", required=True, metavar="FOLDER")
    ap.add_argument("--kda", default=os.path.join(HERE, "..", "build", "release", "bin", "kda"))
    ap.add_argument("-p", "--prompt", type=numbers, default=[512], metavar="LIST")
    ap.add_argument("-n", "--generate", type=numbers, default=[32], metavar="LIST")
    ap.add_argument("-s", "--sequences", type=numbers, default=[1], metavar="LIST")
    ap.add_argument("-d", "--depth", type=numbers, default=[0], metavar="LIST")
    ap.add_argument("-t", "--threads", type=int, default=len(os.sched_getaffinity(0)))
    ap.add_argument("-b", "--batch", type=int, help="of kda (default: its own)")
    ap.add_argument("--rounds", type=int, default=3)
    ap.add_argument("--reps", type=int, default=2, help="counted passes a test, process and round (default: 2)")
    ap.add_argument("--fa", type=numbers, default=[1, 0], metavar="LIST", help="the peer's flash attention: 1 on, 0 off (default: 1,0)")
    ap.add_argument("--ubatch", type=numbers, default=[512, 2048], metavar="LIST", help="the peer's batches (default: 512,2048)")
    ap.add_argument("--no-start", action="store_true", help="leave out first tokens and memory")
    ap.add_argument("--json", metavar="FILE", help="also write everything measured, for plot.py")
    a = ap.parse_args()
    a.prompt, a.generate = ([n for n in ns if n > 0] for ns in (a.prompt, a.generate))
    a.depth = sorted(set(a.depth))
    a.sequences = [n for n in a.sequences if n > 0] or [1]
    if a.rounds < 1 or a.reps < 1 or not (a.prompt or a.generate) or not (a.depth and a.fa and a.ubatch):
        ap.error("nothing to measure")
    kda = Kda(a)
    peer = Peer(a, kda.vocab)
    busy = os.getloadavg()[0]
    if busy > 0.5:
        print(f"compare.py: warning: the machine is busy (load {busy:.1f}). Threads that wait for each other lose more than their share "
              "of it, the peer's most of all: do not trust these numbers", file=sys.stderr)
    print(f"{kda.name}, {a.threads} threads, {a.rounds} rounds of {a.reps} passes\n")
    result = {"model": kda.name, "threads": a.threads, "load_before": busy, "tests": compare_speed(a, kda, peer)}
    if not a.no_start:
        result.update(compare_start_and_memory(a, kda, peer))
    if a.json:
        with open(a.json, "w") as f:
            json.dump(result, f, indent=2)
            f.write("\n")


if __name__ == "__main__":
    main()
