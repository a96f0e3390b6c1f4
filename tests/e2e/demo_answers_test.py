#!/usr/bin/python3
"""The demo model's answers to fresh exercises equal those of the float64 reference, answer by answer.

    KDA=PROGRAM demo_answers_test.py [--per-task 12]

Greedy decoding through `kda chat` with one message a line. Prints each task's score; exit status 77 means skipped.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--per-task", type=int, default=12)
    args = ap.parse_args()
    try:
        import numpy  # noqa: F401
    except ImportError:
        print("skipped: needs python3-numpy")
        sys.exit(77)
    source = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
    model = os.path.join(source, "models", "demo")
    with tempfile.TemporaryDirectory() as folder:
        answers = os.path.join(folder, "answers.json")
        subprocess.run([sys.executable, os.path.join(source, "tools", "demo", "reference_answers.py"), model, answers,
                        "--per-task", str(args.per_task)], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, OPENBLAS_NUM_THREADS="1"))
        with open(answers) as f:
            tasks = json.load(f)["tasks"]
    differ = 0
    for name, task in tasks.items():
        agree = right = turns = 0
        for conversation in task["conversations"]:
            expected = [t["answer"] for t in conversation["turns"]]
            questions = "".join(t["question"] + "\n" for t in conversation["turns"])
            run = subprocess.run([os.environ["KDA"], "chat", model, "--temperature", "0", "--max-tokens", "64"], input=questions,
                                 capture_output=True, text=True, timeout=120)
            if run.returncode != 0:
                sys.exit(f"kda chat ended with {run.returncode}: {run.stderr}")
            got = run.stdout.split("\n")[:-1]
            right += got == [t["expected"] for t in conversation["turns"]]
            turns += len(expected)
            agree += sum(e == g for e, g in zip(expected, got))
            if got != expected:
                differ += 1
                print(f"{name}: asked {questions!r}\n  reference {expected}\n  kda       {got}")
        print(f"{name}: {agree} of {turns} answers as the reference, {right} of {task['of']} conversations right "
              f"(reference {task['right']})", flush=True)
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
