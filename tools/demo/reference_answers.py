#!/usr/bin/python3
"""Answers of the demo model to fresh exercises, by the float64 reference: what the engine must say too.

    reference_answers.py MODEL_DIR OUT.json [--per-task 12] [--seed 7]

Greedy decoding, one conversation at a time, each task by itself. Writes
{"seed", "tasks": {name: {"right": n, "of": n, "conversations": [{"turns": [{"question", "expected", "answer"}]}]}}}.
The seed is not one that training or its evaluation used (0 and 1). Needs only NumPy; a few minutes.
"""
import argparse
import base64
import json
import os
import random
import re
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "reference"))
import kimi_linear_reference as reference  # noqa: E402
import tasks  # noqa: E402

# The splitting pattern on ASCII text, which is all that the exercises hold.
PATTERN = re.compile(r"[^\r\nA-Za-z0-9]?[A-Z]*[a-z]+(?:'(?:s|t|re|ve|m|ll|d))?|[^\r\nA-Za-z0-9]?[A-Z]+[a-z]*"
                     r"|[0-9]{1,3}| ?[^\sA-Za-z0-9]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
MAX_ANSWER = 64


class Tokenizer:
    def __init__(self, folder):
        with open(os.path.join(folder, "tiktoken.model")) as f:
            self.ranks = {base64.b64decode(a): int(b) for a, b in map(str.split, f)}
        with open(os.path.join(folder, "tokenizer_config.json")) as f:
            added = json.load(f)["added_tokens_decoder"]
        self.special = {v["content"]: int(k) for k, v in added.items()}
        self.bytes = {v: k for k, v in self.ranks.items()}

    def encode(self, text):
        out = []
        for word in PATTERN.findall(text):
            parts = [bytes([b]) for b in word.encode()]
            while len(parts) > 1:
                best = min(range(len(parts) - 1), key=lambda i: self.ranks.get(parts[i] + parts[i + 1], 1 << 30))
                if parts[best] + parts[best + 1] not in self.ranks:
                    break
                parts[best:best + 2] = [parts[best] + parts[best + 1]]
            out += [self.ranks[p] for p in parts]
        return out

    def decode(self, ids):
        return b"".join(self.bytes.get(i, b"") for i in ids).decode("utf-8", "replace")

    def turn(self, question):
        s = self.special
        return [s["<|im_user|>"], *self.encode("user"), s["<|im_middle|>"], *self.encode(question), s["<|im_end|>"],
                s["<|im_assistant|>"], *self.encode("assistant"), s["<|im_middle|>"]]


def converse(model, tokenizer, questions):
    """The model's answer to each question, in one conversation."""
    ends = {tokenizer.special[n] for n in ("<|im_end|>", "[EOS]", "[EOT]")}
    model.reset()
    answers = []
    for question in questions:
        for token in tokenizer.turn(question):
            logits = model.step(token)
        answer = []
        while len(answer) < MAX_ANSWER:
            token = int(logits.argmax())
            if token in ends:
                break
            answer.append(token)
            logits = model.step(token)
        model.step(tokenizer.special["<|im_end|>"])
        answers.append(tokenizer.decode(answer))
    return answers


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("model_dir")
    ap.add_argument("out")
    ap.add_argument("--per-task", type=int, default=12)
    ap.add_argument("--seed", type=int, default=7)
    args = ap.parse_args()
    model = reference.Model(*reference.load(args.model_dir))
    tokenizer = Tokenizer(args.model_dir)
    result = {"seed": args.seed, "tasks": {}}
    for name, task in tasks.TASKS.items():
        rng = random.Random(f"{args.seed} {name}")
        conversations, right = [], 0
        for _ in range(args.per_task):
            turns = task(rng)
            answers = converse(model, tokenizer, [q for q, _ in turns])
            conversations.append({"turns": [{"question": q, "expected": e, "answer": a}
                                            for (q, e), a in zip(turns, answers)]})
            right += all(e == a for (_, e), a in zip(turns, answers))
        result["tasks"][name] = {"right": right, "of": args.per_task, "conversations": conversations}
        print(f"{name}: {right} of {args.per_task} right", flush=True)
    with open(args.out + ".tmp", "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")
    os.replace(args.out + ".tmp", args.out)
    print(args.out)


if __name__ == "__main__":
    main()
