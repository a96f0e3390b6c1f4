#!/usr/bin/python3
"""kda perplexity, compare and imatrix against the same numbers computed with NumPy from what `kda logits` writes.

Needs NumPy: exit status 77 means skipped."""
import json
import os
import random
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

try:
    import numpy as np
except ImportError:
    print("skipped: needs python3-numpy")
    sys.exit(77)

from support import KDA, MODEL, ProgramTest, environment, kda, main

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "demo"))
import tasks  # noqa: E402

N_CTX, N_CHUNKS = 48, 3
TEXT = ["--ctx", str(N_CTX), "--special"]


def exercises(n):
    """Conversations of the demo model's tasks in its chat format."""
    rng = random.Random(7)
    text = ""
    for _ in range(n):
        for question, answer in tasks.sample(rng)[1]:
            text += (f"<|im_user|>user<|im_middle|>{question}<|im_end|><|im_assistant|>assistant<|im_middle|>"
                     f"{answer}<|im_end|>")
    return text


def log_softmax(x):
    x = x.astype(np.float64)
    x -= x.max(axis=-1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=-1, keepdims=True))


def estimate(values):
    return values.mean(), values.std(ddof=1) / np.sqrt(len(values))


def read_safetensors(path):
    """{name: (dtype, shape, offset, size)} and the bytes with their start."""
    with open(path, "rb") as f:
        data = bytearray(f.read())
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    return header, data, 8 + size


def weight(name):
    header, data, start = read_safetensors(os.path.join(MODEL, "model.safetensors"))
    begin, end = header[name]["data_offsets"]
    raw = bytes(data[start + begin:start + end])
    if header[name]["dtype"] == "F32":
        values = np.frombuffer(raw, np.float32)
    else:
        values = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return values.reshape(header[name]["shape"]).astype(np.float64)


def read_gguf(path):
    """Metadata and F32 tensors (slowest dimension first) of a small GGUF file."""
    with open(path, "rb") as f:
        data = f.read()
    at = 24
    version, n_tensors, n_metadata = struct.unpack("<IQQ", data[4:24])
    assert data[:4] == b"GGUF" and version == 3

    def take(form):
        nonlocal at
        value = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return value[0]

    def text():
        nonlocal at
        n = take("Q")
        at += n
        return data[at - n:at].decode()

    def value(kind):
        if kind == 8:
            return text()
        if kind == 9:
            element, n = take("I"), take("Q")
            return [value(element) for _ in range(n)]
        return take({4: "I", 5: "i", 6: "f", 10: "Q"}[kind])

    metadata = {}
    for _ in range(n_metadata):
        key = text()
        metadata[key] = value(take("I"))
    infos = []
    for _ in range(n_tensors):
        name = text()
        shape = [take("Q") for _ in range(take("I"))][::-1]
        assert take("I") == 0
        infos.append((name, shape, take("Q")))
    start = (at + 31) // 32 * 32
    return metadata, {n: np.frombuffer(data, np.float32, int(np.prod(s)), start + o).reshape(s) for n, s, o in infos}


class Measures(ProgramTest):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.folder = cls.holder.name
        cls.text = cls.path("text.txt")
        with open(cls.text, "w") as f:
            f.write(exercises(12))
        with open(cls.text) as f:
            found = kda("tokenize", MODEL, "--special", "--json", stdin=f.read())
        cls.ids = json.loads(found.stdout)["ids"]
        assert len(cls.ids) >= N_CTX * (N_CHUNKS + 1)
        # A model that is a little off: another temperature.
        cls.other = cls.path("other")
        shutil.copytree(MODEL, cls.other)
        file = os.path.join(cls.other, "model.safetensors")
        os.chmod(file, 0o644)
        header, data, start = read_safetensors(file)
        begin, end = header["model.norm.weight"]["data_offsets"]
        if header["model.norm.weight"]["dtype"] == "F32":
            values = np.frombuffer(bytes(data[start + begin:start + end]), np.float32) * np.float32(0.75)
        else:
            values = np.frombuffer(bytes(data[start + begin:start + end]), np.uint16) - np.uint16(64)  # about * 0.7
        data[start + begin:start + end] = values.tobytes()
        with open(file, "wb") as f:
            f.write(data)
        cls.logits = {m: [cls.run_logits(m, c) for c in range(N_CHUNKS)] for m in (MODEL, cls.other)}

    @classmethod
    def tearDownClass(cls):
        cls.holder.cleanup()

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    @classmethod
    def chunk(cls, c):
        return cls.ids[c * N_CTX:(c + 1) * N_CTX]

    @classmethod
    def run_logits(cls, model, c):
        np.save(cls.path("ids.npy"), np.array(cls.chunk(c)))
        dump = cls.path(f"dump{c}")
        result = kda("logits", model, "--ids", cls.path("ids.npy"), "--out", cls.path("l.npy"),
                     *(["--dump", dump] if model == MODEL else []))
        assert result.returncode == 0, result.stderr
        return np.load(cls.path("l.npy"))

    def expected(self, model):
        """log p [scored, vocab] and the token that follows each."""
        first = N_CTX // 2
        rows = np.concatenate([log_softmax(self.logits[model][c][first:N_CTX - 1]) for c in range(N_CHUNKS)])
        return rows, np.concatenate([self.chunk(c)[first + 1:] for c in range(N_CHUNKS)])

    def near(self, found, value, error=None, places=6):
        self.assertAlmostEqual(found["value"], value, delta=10**-places * max(1, abs(value)))
        if error is not None:
            self.assertAlmostEqual(found["error"], error, delta=10**-places * max(1, abs(error)))

    def check_perplexity(self, found, model):
        rows, following = self.expected(model)
        loss, error = estimate(-rows[np.arange(len(rows)), following])
        self.near(found["loss"], loss, error)
        self.near(found["perplexity"], np.exp(loss), np.exp(loss) * error)

    def check_divergence(self, found):
        p, following = self.expected(MODEL)
        q, _ = self.expected(self.other)
        kl = (np.exp(p) * (p - q)).sum(axis=1)
        self.assertGreater(kl.mean(), 1e-4)
        self.near(found["kl_divergence"], *estimate(kl))
        for name, value in (("median", np.median(kl)), ("p999", np.quantile(kl, 0.999)), ("max", kl.max())):
            self.assertAlmostEqual(found["kl_divergence"][name], value, delta=1e-6 * max(1, value))
        self.near(found["same_top"], *estimate((p.argmax(axis=1) == q.argmax(axis=1)).astype(float)))
        at = np.arange(len(p)), following
        ratio, error = estimate(p[at] - q[at])
        self.near(found["perplexity_ratio"], np.exp(ratio), np.exp(ratio) * error)

    def test_perplexity_is_that_of_the_logits(self):
        found = json.loads(self.succeeds("perplexity", MODEL, "-f", self.text, *TEXT, "--chunks", str(N_CHUNKS), "--json"))
        self.assertEqual((found["ctx"], found["chunks"], found["scored_tokens"]), (N_CTX, N_CHUNKS, N_CHUNKS * 23))
        self.check_perplexity(found, MODEL)
        self.assertLess(found["perplexity"]["value"], 1024, "worse than knowing nothing")

    def test_all_whole_chunks_count(self):
        found = json.loads(self.succeeds("perplexity", MODEL, "-f", self.text, *TEXT, "--json", "--batch", "10"))
        self.assertEqual(found["chunks"], len(self.ids) // N_CTX)
        with open(self.text) as f:
            piped = json.loads(self.succeeds("perplexity", MODEL, "-f", "-", *TEXT, "--json", stdin=f.read() + "\n"))
        self.assertEqual(piped["loss"], found["loss"])

    def test_divergence_from_kept_logits_is_that_of_the_logits(self):
        kept = self.path("a.logits")
        base = json.loads(self.succeeds("perplexity", MODEL, "-f", self.text, *TEXT, "--chunks", str(N_CHUNKS),
                                        "--save-logits", kept, "--json"))
        self.assertEqual(os.path.getsize(kept), 24 + 4 * N_CTX * N_CHUNKS + 4 * 1024 * N_CHUNKS * 23)
        found = json.loads(self.succeeds("perplexity", self.other, "--kl-divergence", kept, "--json"))
        self.check_perplexity(found, self.other)
        self.check_divergence(found)
        self.assertEqual(found["base"]["loss"], base["loss"])
        same = json.loads(self.succeeds("perplexity", MODEL, "--kl-divergence", kept, "-f", self.text, "--special", "--json"))
        self.assertEqual(same["kl_divergence"], {"value": 0, "error": 0, "median": 0, "p999": 0, "max": 0})
        self.assertEqual(same["same_top"]["value"], 1)
        fewer = json.loads(self.succeeds("perplexity", MODEL, "--kl-divergence", kept, "--chunks", "2", "--json"))
        self.assertEqual(fewer["chunks"], 2)
        self.fails(2, "perplexity", MODEL, "--kl-divergence", kept, "--ctx", "64", says=f"expected {N_CTX}")
        self.fails(1, "perplexity", MODEL, "--kl-divergence", kept, "-f", self.text, says="reads the text as other tokens")
        self.fails(1, "perplexity", MODEL, "--kl-divergence", self.text, says="no file of logits")
        with open(kept, "r+b") as f:
            f.truncate(os.path.getsize(kept) - 4)
        self.fails(1, "perplexity", MODEL, "--kl-divergence", kept, says="rows of 1024 logits")

    def test_compare_does_both_in_one_run(self):
        found = json.loads(self.succeeds("compare", MODEL, self.other, "-f", self.text, *TEXT, "--chunks", str(N_CHUNKS),
                                         "--json"))
        self.check_perplexity(found["A"], MODEL)
        self.check_perplexity(found["B"], self.other)
        self.check_divergence(found)
        same = json.loads(self.succeeds("compare", MODEL, MODEL, "-f", self.text, *TEXT, "--json"))
        self.assertEqual(same["kl_divergence"], {"value": 0, "error": 0, "median": 0, "p999": 0, "max": 0})
        self.assertEqual(same["perplexity_ratio"], {"value": 1, "error": 0})
        for label in ("perplexity, A", "perplexity, B", "KL divergence, mean", "median", "99.9 %", "same top token", "+/-"):
            self.assertIn(label, self.succeeds("compare", MODEL, self.other, "-f", self.text, *TEXT))

    def test_importance_is_the_mean_square_of_what_each_product_reads(self):
        out = self.path("m.gguf")
        about = json.loads(self.succeeds("imatrix", MODEL, "-f", self.text, *TEXT, "--chunks", str(N_CHUNKS), "-o", out,
                                         "--json"))
        metadata, found = read_gguf(out)
        self.assertEqual(metadata, {"general.type": "imatrix", "imatrix.datasets": [self.text],
                                    "imatrix.chunk_count": N_CHUNKS, "imatrix.chunk_size": N_CTX})
        self.assertEqual(len(found), 2 * about["tensors"])
        n_tokens = N_CHUNKS * N_CTX

        def dumped(name):
            parts = [np.load(os.path.join(self.path(f"dump{c}"), name + ".npy")) for c in range(N_CHUNKS)]
            return np.concatenate(parts).astype(np.float64)

        def check(tensor, rows, matrix=0):
            sums, counts = found[tensor + ".in_sum2"], found[tensor + ".counts"]
            self.assertEqual(counts[matrix, 0], len(rows), tensor)
            np.testing.assert_allclose(sums[matrix], (rows**2).sum(axis=0), rtol=1e-4, atol=1e-9, err_msg=tensor)

        with open(os.path.join(MODEL, "config.json")) as f:
            config = json.load(f)
        seen = set()
        for layer in range(config["num_hidden_layers"]):
            blk, lay = f"blk.{layer}.", f"l{layer}."
            hf = f"model.layers.{layer}."
            x = dumped(lay + "attn_norm")
            self.assertEqual(len(x), n_tokens)
            if layer + 1 in config["linear_attn_config"]["kda_layers"]:
                for name in ("attn_q", "attn_k", "attn_v", "ssm_beta", "ssm_f_a", "ssm_g_a"):
                    check(f"{blk}{name}.weight", x)
                for part in ("f", "g"):
                    check(f"{blk}ssm_{part}_b.weight", x @ weight(f"{hf}self_attn.{part}_a_proj.weight").T)
                gated = dumped(lay + "kda.o_gated")
                check(blk + "attn_output.weight", gated.reshape(n_tokens, -1))
                seen.add("kda")
            else:
                check(blk + "attn_q.weight", x)
                check(blk + "attn_kv_a_mqa.weight", x)
                check(blk + "attn_kv_b.weight", dumped(lay + "mla.latent"))
                q, ctx = dumped(lay + "mla.q"), dumped(lay + "mla.ctx")
                n_nope, n_value = config["qk_nope_head_dim"], config["v_head_dim"]
                kv_b = weight(hf + "self_attn.kv_b_proj.weight").reshape(q.shape[1], n_nope + n_value, -1)
                values = []
                for head in range(q.shape[1]):
                    check(blk + "attn_k_b.weight", q[:, head, :n_nope], head)
                    check(blk + "attn_v_b.weight", ctx[:, head], head)
                    values.append(ctx[:, head] @ kv_b[head, n_nope:].T)
                check(blk + "attn_output.weight", np.concatenate(values, axis=1))
                seen.add("mla")
            x = dumped(lay + "ffn_norm")

            def middle(x, gate, up):
                g = x @ weight(gate).T
                return g / (1 + np.exp(-g)) * (x @ weight(up).T)

            if lay + "moe.experts.npy" not in os.listdir(self.path("dump0")):
                check(blk + "ffn_gate.weight", x)
                check(blk + "ffn_up.weight", x)
                check(blk + "ffn_down.weight", middle(x, hf + "mlp.gate_proj.weight", hf + "mlp.up_proj.weight"))
                seen.add("dense")
                continue
            moe = hf + "block_sparse_moe."
            check(blk + "ffn_gate_inp.weight", x)
            check(blk + "ffn_up_shexp.weight", x)
            check(blk + "ffn_gate_shexp.weight", x)
            shared = moe + "shared_experts."
            check(blk + "ffn_down_shexp.weight", middle(x, shared + "gate_proj.weight", shared + "up_proj.weight"))
            picks = dumped(lay + "moe.experts").astype(int)
            for expert in range(config["num_experts"]):
                rows = x[(picks == expert).any(axis=1)]
                check(blk + "ffn_gate_exps.weight", rows, expert)
                check(blk + "ffn_up_exps.weight", rows, expert)
                one = f"{moe}experts.{expert}."
                check(blk + "ffn_down_exps.weight", middle(rows, one + "w1.weight", one + "w3.weight"), expert)
            seen.add("moe")
        self.assertEqual(seen, {"kda", "mla", "dense", "moe"})
        tied = config.get("tie_word_embeddings")
        check("token_embd.weight" if tied else "output.weight", dumped("norm"))

    def test_experts_without_data_are_listed(self):
        out = self.path("few.gguf")
        text = self.succeeds("imatrix", MODEL, "-f", self.text, "--ctx", "8", "--chunks", "1", "-o", out)
        self.assertRegex(text, r"blk\.\d+\.ffn_up_exps\.weight: no data for \d of 8 experts, which count as weight 1: \d")
        about = json.loads(self.succeeds("imatrix", MODEL, "-f", self.text, "--ctx", "8", "--chunks", "1", "-o", out, "--json"))
        _, found = read_gguf(out)
        for gap in about["without_data"]:
            empty = [e for e, n in enumerate(found[gap["tensor"] + ".counts"][:, 0]) if n == 0]
            self.assertEqual(gap["experts"], empty)

    def test_what_cannot_be_done_is_said(self):
        self.fails(2, "perplexity", MODEL, says="--file")
        self.fails(2, "compare", MODEL, MODEL, says="--file")
        self.fails(2, "imatrix", MODEL, "-f", self.text, says="--output")
        self.fails(2, "perplexity", MODEL, "-f", self.text, "--ctx", "7", says="7")
        self.fails(2, "perplexity", MODEL, "-f", self.text, "--ctx", "100000", says="expected at least 100000")
        self.fails(1, "perplexity", MODEL, "-f", self.path("none.txt"), says="none.txt")
        self.fails(1, "imatrix", MODEL, "-f", self.text, *TEXT, "-o", self.path("none/m.gguf"), says="cannot create")
        self.fails(1, "perplexity", MODEL, "-f", self.text, *TEXT, "--save-logits", self.folder, says="found a folder")

    def test_an_interrupt_leaves_no_file(self):
        text = exercises(4000).encode()
        before = set(os.listdir(self.folder))
        for words in (["imatrix", MODEL, "-o", self.path("never.gguf")],
                      ["perplexity", MODEL, "--save-logits", self.path("never.logits")]):
            program = subprocess.Popen([KDA, *words, "-f", "-", "--isa", "scalar"], stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
            program.stdin.write(text)  # far more than a pipe holds: the program is at work when this returns
            program.stdin.close()
            program.stdin = None
            time.sleep(0.5)
            program.send_signal(signal.SIGINT)
            output, error = program.communicate(timeout=60)
            self.assertEqual((program.returncode, output, error), (130, b"", b""))
            self.assertEqual(set(os.listdir(self.folder)), before)


if __name__ == "__main__":
    main()
