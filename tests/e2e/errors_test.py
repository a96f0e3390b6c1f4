#!/usr/bin/python3
"""Every bad input ends in one sentence and a status, never in a crash."""
import json
import os
import random
import shutil
import struct
import subprocess
import tempfile

from support import GREEDY, KDA, MODEL, ProgramTest, environment, kda, main

COMMANDS = (["run", "{}", "Hi"], ["chat", "{}"], ["inspect", "{}"], ["tokenize", "{}", "Hi"])


def npy(path, values):
    header = f"{{'descr': '<i8', 'fortran_order': False, 'shape': ({len(values)},), }}".encode()
    header += b" " * (117 - len(header)) + b"\n"
    with open(path, "wb") as f:
        f.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header + struct.pack(f"<{len(values)}q", *values))


class Models(ProgramTest):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def path(self, name, content=None):
        path = os.path.join(self.folder, name)
        if content is not None:
            with open(path, "wb") as f:
                f.write(content)
        return path

    def refused(self, model, says="", commands=COMMANDS):
        for words in commands:
            self.fails(1, *(w.format(model) if w == "{}" else w for w in words), says=says)

    def copy_of_demo(self):
        copy = self.path("model")
        shutil.copytree(MODEL, copy)
        return copy

    def test_missing_file(self):
        self.refused(self.path("none.gguf"), says="none.gguf")

    def test_name_that_is_in_no_cache(self):
        self.refused("no-such-org/no-such-model")

    def test_empty_file(self):
        self.refused(self.path("empty.gguf", b""), says="empty")

    def test_empty_folder(self):
        self.refused(self.folder)

    def test_random_bytes(self):
        self.refused(self.path("random.gguf", random.Random(1).randbytes(100000)))

    def test_git_lfs_pointer(self):
        self.refused(self.path("model.gguf", b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n"), says="LFS")

    def test_truncated_gguf(self):
        header = b"GGUF" + struct.pack("<IQQ", 3, 5, 5)
        for size in (4, 8, 23, 24):
            self.refused(self.path("cut.gguf", (header + bytes(100))[:size]))
        self.refused(self.path("huge.gguf", b"GGUF" + struct.pack("<IQQ", 3, 2**63, 2**63) + bytes(100)))

    def test_truncated_safetensors(self):
        copy = self.copy_of_demo()
        weights = os.path.join(copy, "model.safetensors")
        with open(weights, "rb") as f:
            whole = f.read()
        for size in (0, 4, 100, len(whole) // 2, len(whole) - 1):
            with open(weights, "wb") as f:
                f.write(whole[:size])
            self.refused(copy, commands=COMMANDS[:3])

    def test_weights_that_are_a_git_lfs_pointer(self):
        copy = self.copy_of_demo()
        with open(os.path.join(copy, "model.safetensors"), "wb") as f:
            f.write(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
        self.refused(copy, says="LFS", commands=COMMANDS[:3])

    def test_broken_config(self):
        copy = self.copy_of_demo()
        config = os.path.join(copy, "config.json")
        with open(config, "rb") as f:
            whole = f.read()
        for content in (b"", b"{", b"[]", b"{}", b"null", b"[" * 100000, b"[" + b"0," * 3_000_000 + b"0]",
                        b"version https://git-lfs.github.com/spec/v1\n", whole.replace(b"kimi_linear", b"llama"),
                        whole.replace(b'"hidden_size": 256', b'"hidden_size": 1e99'),
                        whole.replace(b'"vocab_size": 1024', b'"vocab_size": -1'),
                        whole.replace(b'"head_dim": 64', b'"head_dim": 8192'),
                        whole.replace(b'"vocab_size": 1024', b'"vocab_size": 99999999999')):
            with open(config, "wb") as f:
                f.write(content)
            self.refused(copy)

    def test_unreadable_folder(self):
        copy, program = self.copy_of_demo(), self.path("kda")
        shutil.copy(KDA, program)
        os.chmod(self.folder, 0o755)
        self.addCleanup(os.chmod, copy, 0o700)
        for mode in (0, 0o100, 0o400):  # not even entered; entered but not listed; listed but not entered
            os.chmod(copy, mode)
            nobody = {"user": 65534, "group": 65534, "extra_groups": []} if os.geteuid() == 0 else {}
            result = subprocess.run([program, "run", copy, "Hi", *GREEDY], capture_output=True, env=environment(), **nobody)
            if mode == 0o100 and not nobody:
                self.assertEqual(result.returncode, 0)  # the owner may open what he knows the name of
                continue
            self.assertEqual((result.returncode, result.stdout), (1, b""))
            self.assertRegex(result.stderr.decode(), r"\Akda: error: [^\n]*model[^\n]*: cannot read: Permission denied\n\Z")

    def test_weights_with_nan_are_found(self):
        copy = self.copy_of_demo()
        weights = os.path.join(copy, "model.safetensors")
        with open(weights, "r+b") as f:
            f.seek(-2, os.SEEK_END)
            f.write(b"\xff\x7f")
        result = kda("inspect", copy, "--check")
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"NaN", result.stderr)
        self.assertEqual(kda("inspect", MODEL, "--check").returncode, 0)


class Requests(ProgramTest):
    def test_prompt_longer_than_the_context(self):
        message = self.fails(1, "run", MODEL, "Sort: " + "1 2 3 " * 100, "--ctx", "20")
        self.assertRegex(message, r"the prompt has \d+ tokens, but the context holds 20")

    def test_empty_prompt(self):
        self.fails(2, "run", MODEL, "--raw", "", says="empty")
        self.fails(2, "run", MODEL, "--raw", says="empty")

    def test_wrong_use(self):
        for words in (["--threads", "0"], ["--threads", "-3"], ["--threads", "many"], ["--batch", "0"], ["--ctx", "0"],
                      ["--temperature", "-1"], ["--temperature", "nan"], ["--top-p", "2"], ["--top-k", "-1"], ["--seed", "x"], ["--seed", "-1"], ["--seed", "18446744073709551616"],
                      ["--max-tokens", "-1"], ["--unknown"], ["--quiet", "--verbose"], ["--raw", "--system", "x"]):
            self.fails(2, "run", MODEL, "Hi", *words)
        self.fails(2, "run", "", "Hi", says="empty")
        self.fails(2, "run")
        self.fails(2)
        self.fails(2, "nonsense")
        self.fails(2, "tokenize", MODEL, "--ids", "1 x")
        self.fails(2, "tokenize", MODEL, "--ids", "99999")

    def test_context_that_fits_no_memory(self):
        with open("/proc/meminfo") as f:
            if int(f.read().split("MemTotal:")[1].split()[0]) > 80 * 2**20:
                self.skipTest("this machine's memory holds any context")
        self.fails(1, "run", MODEL, "Hi", "--ctx", str(2**27), says="memory")

    def test_unknown_instruction_set(self):
        self.fails(2, "run", MODEL, "Hi", "--isa", "mmx", says="mmx")

    def test_invalid_utf8_is_accepted(self):
        for stdin in (b"\xff\xfe\x80", b"\xc3", b"\x00" * 5):
            self.assertEqual(kda("run", MODEL, *GREEDY, "--max-tokens", "3", stdin=stdin).returncode, 0)
            self.assertEqual(kda("chat", MODEL, *GREEDY, "--max-tokens", "3", stdin=stdin).returncode, 0)
            ids = self.succeeds("tokenize", MODEL, "--json", stdin=stdin)
            back = kda("tokenize", MODEL, "--ids", stdin=json.dumps(json.loads(ids)["ids"]))
            self.assertEqual(back.stdout, stdin)

    def test_bad_ids_for_logits(self):
        with tempfile.TemporaryDirectory() as folder:
            ids, out = os.path.join(folder, "ids.npy"), os.path.join(folder, "out.npy")
            for values, status in (([1, 1024], 2), ([-1], 2), ([], 2), ([2**40], 2)):
                npy(ids, values)
                self.fails(status, "logits", MODEL, "--ids", ids, "--out", out)
            for content in (b"", b"\x93NUMPY", b"text", b"\x93NUMPY\x01\x00\xff\xff"):
                with open(ids, "wb") as f:
                    f.write(content)
                self.fails(1, "logits", MODEL, "--ids", ids, "--out", out)
            self.fails(1, "logits", MODEL, "--ids", os.path.join(folder, "none.npy"), "--out", out)
            npy(ids, [1, 2, 3])
            for cuts in ("0", "3", "2,1", "1,1", "9"):
                self.fails(2, "logits", MODEL, "--ids", ids, "--out", out, "--cuts", cuts, says="--cuts")
            self.fails(1, "logits", MODEL, "--ids", ids, "--out", os.path.join(folder, "none", "out.npy"))
            self.fails(1, "logits", MODEL, "--ids", ids, "--out", out, "--dump", ids)
            self.assertFalse(os.path.exists(out))


if __name__ == "__main__":
    main()
