#!/usr/bin/python3
"""Files that kda writes, in other programs: llama.cpp (npm's node-llama-cpp) gives the same answers and probabilities,
and an independent reader (npm's @huggingface/gguf) lists the same metadata and tensors.

support/npm_packages.sh installs the packages; what cannot be had is skipped.
"""
import functools
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "e2e"))
from support import KDA, MODEL, environment  # noqa: E402

import numpy as np  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PROCESSOR = {"x86_64": "linux-x64", "aarch64": "linux-arm64"}.get(platform.machine(), "linux-x64")
LLAMA_CPP = ("node-llama-cpp@3.22.1", f"@node-llama-cpp/{PROCESSOR}@3.22.1")
READER = ("@huggingface/gguf@0.4.6",)
QUESTIONS = ["What is 27+15?", "Sort: 7 3 9 1", "What is the capital of Norway?", "Remember apple=42. What is apple?"]
# Largest difference of a next-token probability. Both compute with activations rounded to 8 bits where weights are
# quantised, in different places; F32 differs by the order of sums.
TYPES = {"f32": 1e-4, "bf16": 2e-2, "q8_0": 2e-2, "q4_k_m": 5e-2, "q2_k": 1e-1}


def prompt(question):
    return f"<|im_user|>user<|im_middle|>{question}<|im_end|><|im_assistant|>assistant<|im_middle|>"


@functools.cache
def modules(packages):
    """The folder of node modules with these packages. SkipTest with the reason where they cannot be had."""
    script = os.path.join(HERE, "..", "support", "npm_packages.sh")
    result = subprocess.run([script, *packages], capture_output=True, text=True)
    if result.returncode == 77:
        raise unittest.SkipTest(result.stderr.strip())
    result.check_returncode()
    return os.path.join(result.stdout.strip(), "node_modules")


def run(*words, attempts=1, **kwargs):
    result = subprocess.run(words, capture_output=True, timeout=500, env=environment(), **kwargs)
    if result.returncode == -signal.SIGSEGV and attempts > 1:
        return run(*words, attempts=attempts - 1, **kwargs)
    if result.returncode != 0:
        raise AssertionError(f"{words}: {result.stderr.decode(errors='replace')}")
    return result.stdout.decode()


class Interchange(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def convert(self, kind):
        path = os.path.join(self.folder, f"{kind}.gguf")
        run(KDA, "convert", MODEL, "-o", path, "--type", kind, "--quiet")
        return path

    def probabilities(self, model, ids):
        """Of the token after ids, by kda."""
        paths = [os.path.join(self.folder, name) for name in ("ids.npy", "logits.npy")]
        np.save(paths[0], np.array(ids, np.int64))
        run(KDA, "logits", model, "--ids", paths[0], "--out", paths[1])
        logits = np.load(paths[1])[-1].astype(np.float64)
        p = np.exp(logits - logits.max())
        return p / p.sum()

    def test_llama_cpp_gives_the_same_answers(self):
        folder = modules(LLAMA_CPP)
        texts = json.dumps([prompt(q) for q in QUESTIONS]).encode()
        paths = [self.convert(kind) for kind in TYPES]
        # llama.cpp was seen to crash now and then on a busy processor with AMX, on files that it reads at other times.
        words = ["node", os.path.join(HERE, "answers.mjs"), folder, *paths]
        lines = run(*words, attempts=4, input=texts).splitlines()
        for (kind, tolerance), path, line in zip(TYPES.items(), paths, lines, strict=True):
            worst = 0.0
            for question, found in zip(QUESTIONS, json.loads(line)):
                text = prompt(question)
                ids = [int(n) for n in json.loads(run(KDA, "tokenize", path, "--special", "--json", text))["ids"]]
                self.assertEqual(found["ids"], ids, f"{kind}: ids of {question}")
                p = self.probabilities(path, ids)
                for token, probability in found["probabilities"]:
                    worst = max(worst, abs(p[token] - probability))
                answer = run(KDA, "tokenize", path, "--ids", " ".join(map(str, found["answer"][:-1]))).rstrip("\n")
                ours = run(KDA, "run", path, question, "--temperature", "0", "--max-tokens", "64", "--quiet").rstrip("\n")
                self.assertEqual(answer, ours, f"{kind}: answer to {question}")
            print(f"{kind}: the same answers; probabilities differ by {worst:.2e} at most")
            self.assertLess(worst, tolerance, kind)

    def test_an_independent_reader_lists_the_same(self):
        folder = modules(READER)
        path = self.convert("q4_k_m")
        theirs = json.loads(run("node", os.path.join(HERE, "listing.mjs"), folder, path))
        ours = json.loads(run(KDA, "inspect", path, "--tensors", "--metadata", "--json"))
        self.assertEqual([[t["name"], t["type"], t["shape"]] for t in ours["tensors"]], theirs["tensors"])
        metadata = theirs["metadata"]
        for key in ("version", "tensor_count", "kv_count"):  # of the header
            metadata.pop(key)
        self.assertEqual(set(metadata), set(ours["metadata"]))
        self.assertEqual(metadata["general.architecture"], "kimi-linear")
        self.assertEqual(metadata["general.file_type"], 15)
        self.assertEqual(metadata["tokenizer.ggml.tokens"]["length"], ours["vocab_size"])
        self.assertEqual(metadata["kimi-linear.attention.head_count_kv"]["length"], ours["layers"]["total"])


if __name__ == "__main__":
    result = unittest.main(verbosity=1, exit=False).result
    if result.wasSuccessful() and len(result.skipped) == result.testsRun:
        sys.exit(77)  # ctest's word for skipped
    sys.exit(not result.wasSuccessful())
