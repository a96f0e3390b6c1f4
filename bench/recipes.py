#!/usr/bin/python3
"""The evidence for the mix of types in src/convert/recipe.cpp, on the demo model and exercises like those it learnt.

    recipes.py [KDA]                          our mix beside llama.cpp's: size and divergence from the original
    recipes.py [KDA] --sensitivity [--type q3_k]
                                              one class of tensors at a time in that type, all else in BF16

Divergences are `kda compare`'s: the mean Kullback-Leibler divergence of the next-token distributions, in nats.
"""
import argparse
import json
import os
import random
import subprocess
import sys
import tempfile

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")
MODEL = os.path.join(ROOT, "models", "demo")
sys.path.insert(0, os.path.join(ROOT, "tools", "demo"))
import tasks  # noqa: E402

PRESETS = ["q5_k_m", "q4_k_m", "q4_k_s", "iq4_xs", "q3_k_m", "q2_k"]
CLASSES = ["token_embd", r"^output\.weight", r"attn_q\.", r"attn_k\.", r"attn_v\.", "attn_output", "ssm_f_a", "ssm_f_b",
           "ssm_g_a", "ssm_g_b", "ssm_beta", "attn_kv_a_mqa", "attn_k_b", "attn_v_b", r"ffn_gate\.", r"ffn_up\.",
           r"ffn_down\.", "ffn_gate_exps", "ffn_up_exps", "ffn_down_exps", "ffn_gate_shexp", "ffn_up_shexp", "ffn_down_shexp"]


def exercises(n):
    """n conversations in the model's chat format."""
    rng = random.Random(20261)
    turns = [turn for _ in range(n) for turn in tasks.sample(rng)[1]]
    return "".join(f"<|im_user|>user<|im_middle|>{q}<|im_end|><|im_assistant|>assistant<|im_middle|>{a}<|im_end|>"
                   for q, a in turns)


class Bench:
    def __init__(self, kda, folder, n):
        self.kda_path, self.folder = kda, folder
        self.text = os.path.join(folder, "text.txt")
        self.model = os.path.join(folder, "model.gguf")
        with open(self.text, "w") as f:
            f.write(exercises(n))

    def kda(self, *words):
        return subprocess.run([self.kda_path, *words], check=True, stdout=subprocess.PIPE).stdout

    def convert(self, *words):
        self.kda("convert", MODEL, "-o", self.model, "--quiet", *words)

    def divergence(self):
        """(mean, its standard error, share of equal top tokens)"""
        found = json.loads(self.kda("compare", MODEL, self.model, "-f", self.text, "--special", "--json"))
        return found["kl_divergence"]["value"], found["kl_divergence"]["error"], found["same_top"]["value"]


def compare_recipes(bench):
    print(f"{'type':<8}{'mix':<11}{'bytes':>9}  {'mean KL divergence':<24}{'same top token':>15}")
    for preset in PRESETS:
        for name, words in (("llama.cpp", ["--recipe", "llama.cpp"]), ("kda", [])):
            bench.convert("--type", preset, *words)
            mean, error, top = bench.divergence()
            print(f"{preset:<8}{name:<11}{os.path.getsize(bench.model):>9}  {mean:.3e} +/- {error:.1e}     {100 * top:>14.2f}%",
                  flush=True)


def show_sensitivity(bench, kind):
    for pattern in CLASSES:
        bench.convert("--type", "bf16", "--tensor-type", f"{pattern}={kind}")
        types = json.loads(bench.kda("inspect", bench.model, "--json"))["types"]
        n = sum(t["tensors"] for t in types if t["type"] not in ("F32", "BF16"))
        mean, error, _ = bench.divergence()
        print(f"{pattern:<18}{n:>3} tensors  {mean:.2e} +/- {error:.1e}  {mean / n:.2e} a tensor", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kda", nargs="?", default=os.path.join(ROOT, "build", "release", "bin", "kda"))
    parser.add_argument("--sensitivity", action="store_true")
    parser.add_argument("--type", default="q3_k")
    parser.add_argument("--conversations", type=int, default=150)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(args.kda, folder, args.conversations)
        if args.sensitivity:
            show_sensitivity(bench, args.type)
        else:
            compare_recipes(bench)


if __name__ == "__main__":
    main()
