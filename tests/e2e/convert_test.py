#!/usr/bin/python3
"""kda convert, quantize, split, merge: from the demo model to files in other types, and what is refused."""
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import tempfile
import time

from support import GREEDY, KDA, MODEL, ProgramTest, environment, kda, main

QUESTION = "What is 27+15?"


def tensors(path):
    """{name: (dtype, shape, begin, end)} and the offset of the data."""
    with open(path, "rb") as f:
        n, = struct.unpack("<Q", f.read(8))
        header = json.loads(f.read(n))
    header.pop("__metadata__", None)
    return header, 8 + n


class Convert(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, *names):
        return os.path.join(self.folder, *names)

    def convert(self, name, kind, *words, source=MODEL):
        self.succeeds("convert", source, "-o", self.path(name), "--type", kind, "--quiet", *words)
        return self.path(name)

    def copy_of_demo(self, **config):
        """The demo model with other values in config.json; None takes a key out."""
        copy = self.path("model")
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(MODEL, copy)
        with open(os.path.join(copy, "config.json")) as f:
            values = json.load(f)
        for key, value in config.items():
            target = values["linear_attn_config"] if key in values["linear_attn_config"] else values
            target[key] = value
        with open(os.path.join(copy, "config.json"), "w") as f:
            json.dump(values, f)
        return copy

    def answers(self, model):
        return self.succeeds("run", model, QUESTION, *GREEDY, "--quiet").strip()

    def test_f32_gives_the_logits_of_the_folder_to_the_bit(self):
        model = self.convert("demo.gguf", "f32", "--check")
        ids = self.succeeds("tokenize", MODEL, "--json", QUESTION)
        values = json.loads(ids)["ids"]
        self.assertEqual(json.loads(self.succeeds("tokenize", model, "--json", QUESTION))["ids"], values)
        header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({len(values)},), }}".encode()
        header += b" " * (117 - len(header)) + b"\n"
        with open(self.path("ids.npy"), "wb") as f:
            f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}q", *values))
        logits = []
        for name, source in (("a.npy", MODEL), ("b.npy", model)):
            self.succeeds("logits", source, "--ids", self.path("ids.npy"), "--out", self.path(name))
            with open(self.path(name), "rb") as f:
                logits.append(f.read())
        self.assertEqual(logits[0], logits[1])

    def test_quantised_models_answer(self):
        for kind in ("q8_0", "q4_k_m", "mxfp4_moe"):
            self.assertEqual(self.answers(self.convert(f"{kind}.gguf", kind)), "42", kind)

    def test_type_stands_in_the_name(self):
        self.succeeds("convert", MODEL, "-o", self.path("x-{type}.gguf"), "--type", "q6_k", "--quiet")
        self.assertTrue(os.path.exists(self.path("x-Q6_K.gguf")))
        result = subprocess.run([KDA, "convert", MODEL, "--quiet"], cwd=self.folder, env=environment(), timeout=120)
        self.assertEqual(result.returncode, 0)
        self.assertTrue(os.path.exists(self.path("demo-Q4_K_M.gguf")))

    def test_dry_run_writes_nothing_and_tells_the_size(self):
        text = self.succeeds("convert", MODEL, "-o", self.path("x.gguf"), "--type", "q5_k_m", "--dry-run")
        self.assertEqual(os.listdir(self.folder), [])
        self.assertRegex(text, r"blk\.3\.attn_k_b\.weight +\{64, 128, 4\} +BF16 +BF16 +65536\n")
        size = os.path.getsize(self.convert("x.gguf", "q5_k_m"))
        planned = int(text.split("\nall ")[1].split()[2])
        self.assertLess(abs(size - planned), 64 * 1024, "metadata and padding")

    def test_quantize_is_convert_in_two_steps(self):
        whole = self.convert("direct.gguf", "q4_k_m")
        self.convert("bf16.gguf", "bf16")
        self.succeeds("quantize", self.path("bf16.gguf"), self.path("two.gguf"), "q4_k_m", "--quiet")
        found = []
        for path in (whole, self.path("two.gguf")):
            listing = json.loads(self.succeeds("inspect", path, "--json", "--tensors", "--metadata"))
            listing["metadata"].pop("general.file_type")
            found.append((listing["tensors"], sorted(listing["metadata"].items())))
        self.assertEqual(*found)
        self.fails(2, "quantize", whole, self.path("x.gguf"), "q8_0", says="--allow-requantize")
        self.succeeds("quantize", whole, self.path("x.gguf"), "q8_0", "--allow-requantize", "--quiet")
        self.fails(2, "quantize", MODEL, self.path("x.gguf"), "q8_0", says="use kda convert")

    def test_split_and_merge(self):
        whole = self.convert("whole.gguf", "q8_0")
        self.succeeds("split", whole, self.path("part.gguf"), "--split-max-size", "2M", "--quiet")
        parts = sorted(n for n in os.listdir(self.folder) if n.startswith("part-"))
        self.assertGreater(len(parts), 2)
        self.assertEqual(self.answers(self.path(parts[0])), "42")
        self.succeeds("merge", self.path(parts[0]), self.path("merged.gguf"), "--quiet")
        with open(whole, "rb") as a, open(self.path("merged.gguf"), "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.fails(2, "split", whole, self.path("x.gguf"), "--split-max-size", "2X", says="--split-max-size")

    def test_rules_and_recipes(self):
        with open(self.path("recipe.txt"), "w") as f:
            f.write("# all experts alike\nffn_.*_exps = q5_k\n")
        text = self.succeeds("convert", MODEL, "--dry-run", "--recipe", self.path("recipe.txt"),
                             "--tensor-type", "ffn_down_exps=q6_k")
        self.assertRegex(text, r"blk\.1\.ffn_gate_exps\.weight .* Q5_K ")
        self.assertRegex(text, r"blk\.1\.ffn_down_exps\.weight .* Q6_K ")
        text = self.succeeds("convert", MODEL, "--dry-run", "--recipe", "llama.cpp", "--type", "q2_k")
        self.assertRegex(text, r"blk\.1\.ffn_down_exps\.weight .* Q3_K ")
        self.assertRegex(text, r"blk\.0\.ssm_f_b\.weight .* Q4_0 ")
        self.fails(2, "convert", MODEL, "--tensor-type", "x=q9", says="no type of weights")
        self.fails(1, "convert", MODEL, "--recipe", self.path("none.txt"), says="none.txt")
        self.fails(2, "convert", MODEL, "--type", "q9_k", says="is not known")

    def test_interrupted_and_resumed(self):
        expected = self.convert("expected.gguf", "q6_k")
        target = self.path("x.gguf")
        words = [KDA, "convert", MODEL, "-o", target, "--type", "q6_k", "--threads", "1"]
        # A limit on the size of files stands for a disk that is full.
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (3_000_000, 3_000_000))
        result = subprocess.run(words, capture_output=True, env=environment(), timeout=120, preexec_fn=limit)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"x.gguf.partial: cannot write: File too large", result.stderr)
        self.assertIn(b"--resume", result.stderr)
        self.assertFalse(os.path.exists(target))
        self.succeeds(*words[1:], "--resume", "--quiet")
        with open(expected, "rb") as a, open(target, "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.assertEqual(sorted(os.listdir(self.folder)), ["expected.gguf", "x.gguf"])

    def test_ctrl_c(self):
        """A key in the middle of the work: nothing under the final name, one sentence, and --resume makes the same file."""
        source = self.convert("source.gguf", "f32")
        expected = self.path("expected.gguf")
        self.succeeds("quantize", source, expected, "iq3_xxs", "--quiet")
        target = self.path("x.gguf")
        words = [KDA, "quantize", source, target, "iq3_xxs", "--threads", "1"]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment()) as run:
            log = target + ".partial.log"
            deadline = time.monotonic() + 60
            while not (os.path.exists(log) and os.path.getsize(log) > 200) and time.monotonic() < deadline:
                time.sleep(0.001)
            run.send_signal(signal.SIGINT)
            out, err = run.communicate(timeout=60)
        self.assertEqual((run.returncode, out), (130, b""), err)
        self.assertIn(b"--resume", err)
        self.assertFalse(os.path.exists(target))
        self.succeeds(*words[1:], "--resume", "--quiet")
        with open(expected, "rb") as a, open(target, "rb") as b:
            self.assertEqual(a.read(), b.read())
        self.assertEqual(sorted(os.listdir(self.folder)), ["expected.gguf", "source.gguf", "x.gguf"])

    def test_bad_targets(self):
        model = self.convert("m.gguf", "f16")
        before = os.stat(model).st_mtime_ns
        self.fails(1, "quantize", model, model, "q8_0", "--quiet", says="is read from")
        self.assertEqual(os.stat(model).st_mtime_ns, before)
        self.fails(1, "convert", MODEL, "-o", self.path("none", "m.gguf"), "--quiet", says="cannot create")
        self.fails(1, "convert", MODEL, "-o", self.folder, "--quiet", says="found a folder")

    def refused(self, model, says):
        self.fails(1, "convert", model, "-o", self.path("out.gguf"), "--type", "q8_0", "--quiet", says=says)
        self.assertEqual([n for n in os.listdir(self.folder) if n.startswith("out")], [])

    def test_bad_folders(self):
        self.refused(self.copy_of_demo(kda_layers=[1, 2, 3, 4]), says="layer 4")
        self.refused(self.copy_of_demo(kda_layers=[1, 2]), says="name 3 layers")
        self.refused(self.copy_of_demo(model_type="kimi_k3"), says="Kimi K3")
        self.refused(self.copy_of_demo(model_type="qwen3_next"), says="qwen3_next")
        self.refused(self.copy_of_demo(num_experts=9), says="expected [9, 256]")
        self.refused(self.copy_of_demo(moe_intermediate_size=128), says="expected")
        copy = self.copy_of_demo()
        with open(os.path.join(copy, "model.safetensors.index.json"), "w") as f:
            json.dump({"weight_map": {"x": "model-1.safetensors"}}, f)
        self.refused(copy, says="model-1.safetensors")
        names, _ = tensors(os.path.join(copy, "model.safetensors"))
        with open(os.path.join(copy, "model.safetensors.index.json"), "w") as f:
            json.dump({"weight_map": {n: "model.safetensors" for n in [*names, "no.such.tensor"]}}, f)
        self.refused(copy, says="no.such.tensor")

    def test_a_vocabulary_with_holes(self):
        copy = self.copy_of_demo()
        path = os.path.join(copy, "tiktoken.model")
        with open(path) as f:
            lines = f.readlines()
        with open(path, "w") as f:
            f.writelines(lines[:300] + lines[301:])
        self.refused(copy, says="tiktoken.model: rank")

    def test_code_of_the_folder_is_not_run(self):
        copy = self.copy_of_demo()
        with open(os.path.join(copy, "tokenization_kimi.py"), "w") as f:
            f.write(f"open({self.path('ran')!r}, 'w')\n")
        self.convert("m.gguf", "q8_0", source=copy)
        self.assertFalse(os.path.exists(self.path("ran")))

    def test_inspect_shows_the_mix(self):
        model = self.convert("m.gguf", "q4_k_m")
        self.assertRegex(self.succeeds("inspect", model), r"\nall +\d+ .* [45]\.\d\d\n")
        listing = json.loads(self.succeeds("inspect", model, "--json"))
        self.assertAlmostEqual(listing["bits_per_weight"],
                               8 * sum(t["bytes"] for t in listing["types"]) / sum(t["elements"] for t in listing["types"]))


if __name__ == "__main__":
    main()
