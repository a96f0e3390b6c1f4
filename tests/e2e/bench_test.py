#!/usr/bin/python3
"""kda bench on the demo model: what it prints, in every form, and what it refuses."""
import csv
import io
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

from support import KDA, MODEL, ProgramTest, environment, main

PLOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "plot.py")
COMPARE = os.path.join(os.path.dirname(PLOT), "compare.py")
# Twice as fast on prompts, without flash attention and with large batches.
FAKE_NODE = """
import json, re, sys, time
words = sys.argv[2:]
if "--first-token" in words:
    print(json.dumps({"load_s": 1, "first_token_s": 1.5}))
for kind, rest, fa, ub in re.findall(r"(pp|tg)(\\S+):fa=(.):ub=(\\S+)", " ".join(words)):
    rate = (2 if kind == "pp" else 1) * (2 if fa == "0" else 1) * (2 if ub == "2048" else 1)
    print(json.dumps({"test": f"{kind}{rest}:fa={fa}:ub={ub}", "rates": [rate] * int(words[words.index("--reps") + 1])}))
time.sleep(0.1)
"""
FAST = ["-p", "32", "-n", "4", "-r", "2"]


class BenchTest(ProgramTest):
    def rows(self, *words):
        found = json.loads(self.succeeds("bench", MODEL, "-o", "json", *words))
        self.assertIs(found["complete"], True)
        return found["rows"]

    def test_every_combination_is_a_row(self):
        found = self.rows("-p", "16-64*2", "-n", "2,3", "-d", "40,0", "-t", "1-2", "-b", "8,31", "-r", "1", "--no-warm-up")
        tests = [f"{t}{d}" for d in ("", "@d40") for t in ("pp16", "pp32", "pp64", "tg2", "tg3")]
        expected = [(threads, batch if t.startswith("pp") else 1, t) for threads in (1, 2) for batch in (8, 31) for t in tests
                    if t.startswith("pp") or batch == 8]
        self.assertEqual([(r["threads"], r["batch"], r["test"]) for r in found], expected)
        for row in found:  # batches below 32 tokens go through MLA in one form
            same = {r["logits_xxh64"] for r in found if r["test"] == row["test"]}
            self.assertEqual(len(same), 1, "logits depend on threads or batches")
        self.assertEqual(len({r["logits_xxh64"] for r in found}), len(tests))

    def test_prompts_may_run_on_other_threads(self):
        found = self.rows("-p", "16,17", "-n", "2", "-t", "2", "--threads-prompt", "3", "-r", "1", "--no-warm-up")
        self.assertEqual([(r["test"], r["threads"]) for r in found], [("pp16", 2), ("pp17", 3), ("tg2", 2)])

    def test_numbers_follow_from_the_times(self):
        prompt, generation = self.rows("-p", "32", "-n", "4", "-d", "7")
        for row in prompt, generation:
            rates = sorted(row["tokens"] / s for s in row["seconds"])
            self.assertEqual(len(rates), 3)
            self.assertAlmostEqual(row["tokens_per_second"], rates[1], delta=1e-6 * rates[1])
            self.assertAlmostEqual(row["tokens_per_second_min"], rates[0], delta=1e-6 * rates[0])
            self.assertAlmostEqual(row["tokens_per_second_max"], rates[2], delta=1e-6 * rates[2])
            self.assertEqual(row["depth"], 7)
        seconds = sorted(prompt["seconds"])[1]
        self.assertAlmostEqual(prompt["macs_per_second"] * seconds / prompt["macs"], 1, delta=1e-6)
        seconds = sorted(generation["seconds"])[1]
        self.assertAlmostEqual(generation["bytes_per_second"] * seconds / generation["bytes"], 1, delta=1e-6)
        self.assertGreater(generation["read_bytes_per_second"], 0)

    def test_sequences_side_by_side_and_edits_are_rows(self):
        found = self.rows("-p", "0", "-n", "3", "-s", "1,4", "-e", "50", "-d", "9", "-r", "2")
        self.assertEqual([r["test"] for r in found], ["tg3@d9", "tg3x4@d9", "ed50@d9", "ed50@d9-ngram"])
        self.assertEqual([r["sequences"] for r in found], [1, 4, 1, 1])
        self.assertEqual([r["kind"] for r in found], ["generation", "generation", "edit", "drafted edit"])
        self.assertEqual(found[2]["logits_xxh64"], found[3]["logits_xxh64"], "guesses change the logits")
        slowest = max(found[1]["seconds"])
        self.assertAlmostEqual(found[1]["tokens_per_second_min"] * slowest, 12, delta=1e-6)
        self.fails(2, "bench", MODEL, "-s", "0", says="--sequences")
        self.fails(2, "bench", MODEL, "-p", "0", "-n", "0", says="nothing is left")

    def test_the_checksum_stays_from_run_to_run(self):
        words = "-p", "8", "-n", "0", "-r", "1", "--isa", "scalar"
        first = self.rows(*words)[0]["logits_xxh64"]
        self.assertEqual(self.rows(*words)[0]["logits_xxh64"], first)
        self.assertRegex(first, r"\A[0-9a-f]{16}\Z")

    def test_table_markdown_and_csv_hold_the_same_rows(self):
        table = self.succeeds("bench", MODEL, *FAST).splitlines()
        self.assertIn("demo", table[0])
        self.assertEqual([line.split()[0] for line in table[1:]], ["test", "pp32", "tg4", "memory"])
        markdown = self.succeeds("bench", MODEL, *FAST, "--output", "markdown").splitlines()
        self.assertEqual({line.count("|") for line in markdown[2:]}, {10})
        rows = list(csv.DictReader(io.StringIO(self.succeeds("bench", MODEL, *FAST, "--output", "csv"))))
        self.assertEqual([(r["test"], r["kind"], r["tokens"], r["repetitions"]) for r in rows],
                         [("pp32", "prompt", "32", "2"), ("tg4", "generation", "4", "2")])
        for line, row in zip(table[2:4], rows):
            self.assertIn(row["logits_xxh64"], line)
        self.assertGreater(float(rows[0]["macs_per_second"]), 0)
        self.assertEqual(rows[0]["bytes_per_second"], "")
        self.assertGreater(float(rows[1]["bytes_per_second"]), 0)

    def test_nothing_but_rows_without_a_terminal(self):
        run = subprocess.run([KDA, "bench", MODEL, "-p", "4000", "-n", "0", "-r", "1"], capture_output=True,
                             env=environment(), timeout=120)
        self.assertEqual((run.returncode, run.stderr), (0, b""))

    def test_results_can_be_drawn(self):
        with tempfile.TemporaryDirectory() as folder:
            result, picture = os.path.join(folder, "rates.json"), os.path.join(folder, "it's.svg")
            with open(result, "w") as f:
                f.write(self.succeeds("bench", MODEL, *FAST, "-d", "0,40", "-o", "json"))

            def draw(**changes):
                return subprocess.run([sys.executable, PLOT, result, "-o", picture], capture_output=True, text=True,
                                      env=environment(**changes))
            run = draw(PATH=folder)
            self.assertEqual(run.returncode, 1)
            self.assertIn("gnuplot is not installed", run.stderr)
            if shutil.which("gnuplot"):
                self.assertEqual((draw().returncode, draw().stderr), (0, ""))
                with open(picture) as f:
                    drawn = f.read()
                for label in ("kda pp32", "kda tg4", "tokens in the context before"):
                    self.assertIn(label, drawn)
            with open(result, "w") as f:
                f.write("{}")
            self.assertIn("neither", draw().stderr)

    def test_compare_takes_the_peers_best_setting_and_the_ratio_of_medians(self):
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "node_modules", "node-llama-cpp"))
            node = os.path.join(folder, "node")  # a peer with speeds of its own
            with open(node, "w") as f:
                f.write(f"#!{sys.executable}\n" + FAKE_NODE)
            os.chmod(node, 0o755)
            out = os.path.join(folder, "out.json")
            run = subprocess.run([sys.executable, COMPARE, MODEL, "--peer", folder, "--kda", KDA, "-p", "32", "-n", "4", "-d", "0,7",
                                  "--rounds", "2", "--reps", "2", "--json", out], capture_output=True, text=True, timeout=300,
                                 env=environment(PATH=folder + os.pathsep + os.environ["PATH"]))
            self.assertEqual(run.returncode, 0, run.stderr)
            with open(out) as f:
                found = json.load(f)
        self.assertEqual([(t["test"], t["peer_setting"]) for t in found["tests"]],
                         [("pp32", "fa=0:ub=2048"), ("tg4", "fa=0:ub=512"), ("pp32@d7", "fa=0:ub=2048"), ("tg4@d7", "fa=0:ub=512")])
        for t in found["tests"]:
            self.assertEqual((len(t["kda_rates"]), len(t["peer_rates"]), len(t["round_ratios"])), (4, 4, 2))
            self.assertEqual(t["peer"], 2 if t["kind"] == "generation" else 8)
            self.assertAlmostEqual(t["ratio"], statistics.median(t["kda_rates"]) / t["peer"])
            self.assertIn(t["test"], run.stdout)
        self.assertEqual(found["first_token_s"]["peer"], [1.5, 1.5])
        self.assertGreater(found["peak_anonymous_bytes"]["kda"], 1 << 20)

    def test_wrong_use_names_the_option(self):
        for words, option in ((["-p", "x"], "--prompt"), (["-n", "4-1"], "--generate"), (["-d", "-1"], "--depth"),
                              (["-b", "0"], "--batch"), (["-b", "99999"], "--batch"), (["-t", "0"], "--threads"),
                              (["--threads-prompt", "0"], "--threads-prompt"),
                              (["-r", "0"], "--repetitions"), (["-o", "xml"], "--output"),
                              (["-p", "0", "-n", "0"], "--prompt, --generate and --edit"),
                              (["-d", "134217728"], "--prompt"), (["-d", "134217729"], "--depth")):
            self.fails(2, "bench", MODEL, *words, says=option)
        self.fails(2, "bench", says="MODEL")
        self.fails(2, "bench", MODEL, "--isa", "z80", says="z80")
        self.fails(1, "bench", "/no/such/model")

    def test_a_context_that_does_not_fit_in_memory_is_refused(self):
        self.fails(1, "bench", MODEL, "-d", "134000000", says="memory: a context of")

    def test_ctrl_c_ends_with_the_rows_so_far(self):
        run = subprocess.Popen([KDA, "bench", MODEL, "-p", "16,32,100000", "-n", "0", "-o", "json"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, env=environment())
        time.sleep(2)
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=60)
        self.assertEqual((run.returncode, err), (130, b""))
        found = json.loads(out)
        self.assertIs(found["complete"], False)
        self.assertLessEqual({r["test"] for r in found["rows"]}, {"pp16", "pp32"})


if __name__ == "__main__":
    main()
