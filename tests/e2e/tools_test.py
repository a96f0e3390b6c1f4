#!/usr/bin/python3
"""kda inspect, tokenize, logits, version and the help texts."""
import ast
import json
import os
import re
import struct
import tempfile

from support import MODEL, ProgramTest, kda, main
from errors_test import npy

COMMANDS = ("run", "chat", "inspect", "tokenize", "logits", "imatrix", "perplexity", "compare", "version")


def read_npy(path):
    """Shape and values of a float32 array."""
    with open(path, "rb") as f:
        data = f.read()
    size = struct.unpack("<H", data[8:10])[0]
    header = ast.literal_eval(data[10:10 + size].decode())
    assert header["descr"] == "<f4" and not header["fortran_order"], header
    values = data[10 + size:]
    return header["shape"], struct.unpack(f"<{len(values) // 4}f", values)


class Help(ProgramTest):
    def test_every_command_explains_itself_with_examples(self):
        whole = self.succeeds("--help")
        for command in COMMANDS:
            self.assertIn(command, whole)
            text = self.succeeds(command, "--help")
            self.assertIn("Examples:", text)
            self.assertIn(f"kda {command}", text)
        self.assertLessEqual(max(map(len, whole.split("\n"))), 160)

    def test_version(self):
        text = self.succeeds("version")
        for label in ("kda ", "compiler: ", "build type: ", "instruction sets: ", "licence: "):
            self.assertIn(label, text)
        self.assertIn("scalar used", self.succeeds("version", KDA_ISA="scalar"))
        self.assertEqual(self.succeeds("--version"), text.split("\n")[0] + "\n")


class Inspect(ProgramTest):
    def test_text_names_the_parts(self):
        text = self.succeeds("inspect", MODEL)
        for part in ("4: 3 KDA, 1 MLA", "8 experts of 256, 2 used", "BF16", "F32", "latent cache", "<|im_end|>", "built-in"):
            self.assertIn(part, text)

    def test_json_agrees_with_the_configuration(self):
        found = json.loads(self.succeeds("inspect", MODEL, "--json", "--ctx", "1000", "--tensors", "--metadata"))
        self.assertEqual(found["layers"], {"total": 4, "kda": 3, "mla": 1, "dense": 1, "moe": 3})
        self.assertEqual((found["hidden_size"], found["vocab_size"]), (256, 1024))
        self.assertEqual(found["memory"]["context"], 1000)
        self.assertGreaterEqual(found["memory"]["latent_cache_bytes"], 1000 * 160 * 4)
        self.assertEqual(sum(t["bytes"] for t in found["types"]), sum(t["bytes"] for t in found["tensors"]))
        self.assertEqual(sum(t["tensors"] for t in found["types"]), len(found["tensors"]))
        self.assertIn("model_type", found["metadata"])
        self.assertEqual(found["warnings"], [])

    def test_memory_grows_with_the_context_only_in_the_cache(self):
        short, long = (json.loads(self.succeeds("inspect", MODEL, "--json", "--ctx", n))["memory"] for n in ("2000", "4000"))
        changed = {k for k in short if short[k] != long[k]}
        self.assertEqual(changed, {"context", "latent_cache_bytes"})

    def test_check_reads_all_weights(self):
        self.assertIn(b"finite", kda("inspect", MODEL, "--check").stderr)


class Tokenize(ProgramTest):
    def test_one_line_a_token(self):
        text = 'Sort: 3 "1"\n\ttab \\ é\x01'
        lines = self.succeeds("tokenize", MODEL, text).splitlines()
        self.assertTrue(all(re.fullmatch(r'\d+\t".*"', line) for line in lines), lines)
        ids = [line.split("\t")[0] for line in lines]
        self.assertEqual(self.succeeds("tokenize", MODEL, "--ids", ",".join(ids)), text)
        self.assertEqual(self.succeeds("tokenize", MODEL, "--ids", stdin=" ".join(ids)), text)
        self.assertIn("\\x01", lines[-1])

    def test_json_gives_ids_and_pieces(self):
        found = json.loads(self.succeeds("tokenize", MODEL, "--json", "What is é漢?"))
        self.assertEqual(list(found), ["ids", "pieces"])
        self.assertEqual(len(found["ids"]), len(found["pieces"]))
        pieces = b"".join(p.encode() if isinstance(p, str) else bytes(p) for p in found["pieces"])
        self.assertEqual(pieces.decode(), "What is é漢?")

    def test_special_tokens_only_on_request(self):
        self.assertEqual(self.succeeds("tokenize", MODEL, "--special", "<|im_end|>"), "1018\t<|im_end|>\n")
        self.assertGreater(self.succeeds("tokenize", MODEL, "<|im_end|>").count("\n"), 1)
        self.assertEqual(self.succeeds("tokenize", MODEL, "--ids", "1018"), "")
        self.assertEqual(self.succeeds("tokenize", MODEL, "--ids", "1018", "--special"), "<|im_end|>")

    def test_standard_input_is_taken_as_it_is(self):
        with_break = json.loads(self.succeeds("tokenize", MODEL, "--json", stdin="a\n"))
        self.assertEqual(self.succeeds("tokenize", MODEL, "--ids", stdin=json.dumps(with_break["ids"])), "a\n")

    def test_no_text_no_tokens(self):
        self.assertEqual(self.succeeds("tokenize", MODEL, ""), "")
        self.assertEqual(json.loads(self.succeeds("tokenize", MODEL, "--json", "")), {"ids": [], "pieces": []})


class Logits(ProgramTest):
    def test_cuts_batches_and_threads_give_the_same_bits(self):
        with tempfile.TemporaryDirectory() as folder:
            ids = os.path.join(folder, "ids.npy")
            npy(ids, [(i * 37 + 5) % 1000 for i in range(50)])
            results = []
            for n, extra in enumerate(([], ["--cuts", "1,7,49"], ["--batch", "3"], ["--threads", "3", "--cuts", "20"], ["--exact"])):
                out, dump = os.path.join(folder, f"{n}.npy"), os.path.join(folder, f"dump{n}")
                self.assertEqual(self.succeeds("logits", MODEL, "--ids", ids, "--out", out, "--dump", dump, *extra), "")
                with open(out, "rb") as f:
                    results.append([f.read()])
                for name in sorted(os.listdir(dump)):
                    with open(os.path.join(dump, name), "rb") as f:
                        results[-1].append((name, f.read()))
            shape, values = read_npy(os.path.join(folder, "0.npy"))
            self.assertEqual(shape, (50, 1024))
            self.assertGreater(len(set(values)), 1000)
            self.assertGreater(len(results[0]), 20)
            for other in results[1:]:
                self.assertEqual([r[0] for r in other[1:]], [r[0] for r in results[0][1:]])
                self.assertTrue(other == results[0])
            for name, _ in results[0][1:]:
                self.assertEqual(read_npy(os.path.join(folder, "dump1", name))[0][0], 50, name)


if __name__ == "__main__":
    main()
