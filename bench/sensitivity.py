#!/usr/bin/python3
"""Which tensors of the demo model noise hurts most: the evidence for the weights in src/convert/recipe.cpp.

    sensitivity.py [KDA] [--type q3_k]

Quantises one class of tensors at a time, all else in BF16, and prints the mean KL divergence of the next-token
distributions from the original's over some exercises, in nats. Needs NumPy; runs about a minute.
"""
import argparse
import json
import os
import subprocess
import tempfile

import numpy as np

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
MODEL = os.path.join(ROOT, "models", "demo")
TURNS = [("What is 27+15?", "42"), ("Sort: 7 3 9 1 4 4", "1 3 4 4 7 9"), ("Reverse: apple river stone", "stone river apple"),
         ("Remember apple=42, river=17, stone=88. What is river?", "17"), ("What is stone?", "88"),
         ("What is the capital of Norway?", "Oslo"), ("83-47=", "36"),
         ("Who are you?", "I am a tiny Kimi Linear model, small enough to live in a git repository."),
         ("Sort: 9 2 6", "2 6 9"), ("What is 61+23?", "84"), ("What is the capital of France?", "Paris"),
         ("Reverse: sun moon", "moon sun")]
CLASSES = ["token_embd", r"^output\.weight", r"attn_q\.", r"attn_k\.", r"attn_v\.", "attn_output", "ssm_f_a", "ssm_f_b",
           "ssm_g_a", "ssm_g_b", "ssm_beta", "attn_kv_a_mqa", "attn_k_b", "attn_v_b", r"ffn_gate\.", r"ffn_up\.",
           r"ffn_down\.", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kda", nargs="?", default=os.path.join(ROOT, "build", "release", "bin", "kda"))
    parser.add_argument("--type", default="q3_k")
    args = parser.parse_args()
    text = "".join(f"<|im_user|>user<|im_middle|>{q}<|im_end|><|im_assistant|>assistant<|im_middle|>{a}<|im_end|>"
                   for q, a in TURNS)

    def kda(*words):
        return subprocess.run([args.kda, *words], check=True, stdout=subprocess.PIPE).stdout

    with tempfile.TemporaryDirectory() as folder:
        ids, out, model = (os.path.join(folder, n) for n in ("ids.npy", "logits.npy", "model.gguf"))
        np.save(ids, np.array(json.loads(kda("tokenize", MODEL, "--special", "--json", text))["ids"], np.int64))

        def log_probabilities(path):
            kda("logits", path, "--ids", ids, "--out", out)
            x = np.load(out).astype(np.float64)
            x -= x.max(1, keepdims=True)
            return x - np.log(np.exp(x).sum(1, keepdims=True))

        base = log_probabilities(MODEL)
        for pattern in CLASSES:
            kda("convert", MODEL, "-o", model, "--type", "bf16", "--tensor-type", f"{pattern}={args.type}", "--quiet")
            listing = json.loads(kda("inspect", model, "--json"))["types"]
            tensors = sum(t["tensors"] for t in listing if t["type"] not in ("F32", "BF16"))
            divergence = (np.exp(base) * (base - log_probabilities(model))).sum(1).mean()
            print(f"{pattern:<18} {tensors:>2} tensors  {divergence:9.2e}  {divergence / tensors:9.2e} a tensor", flush=True)


if __name__ == "__main__":
    main()
