#!/usr/bin/python3
"""kda run: what goes where, repeatability, stdin, stop strings, signals and closed pipes."""
import json
import os
import pty
import signal
import subprocess

from support import GREEDY, KDA, MODEL, SECONDS, ProgramTest, environment, kda, main

QUESTION = "What is 27+15?"
FOREVER = ["--ignore-eos", "--ctx", "4000", "--quiet"]
SLOWLY = ("--isa", "scalar", "--threads", "1")  # seconds to the end of the context, so that a signal comes before it


class Streams(ProgramTest):
    def test_only_the_answer_goes_to_stdout(self):
        result = kda("run", MODEL, QUESTION, *GREEDY)
        self.assertEqual((result.returncode, result.stdout), (0, b"42\n"))
        self.assertRegex(result.stderr.decode(), r"\Aprompt: \d+ tokens, [\d.]+ tokens/s; answer: \d+ tokens, [\d.]+ tokens/s\n\Z")

    def test_quiet_says_nothing_else(self):
        result = kda("run", MODEL, QUESTION, *GREEDY, "--quiet")
        self.assertEqual((result.stdout, result.stderr), (b"42\n", b""))

    def test_verbose_tells_the_seed_and_stays_on_stderr(self):
        result = kda("run", MODEL, QUESTION, *GREEDY, "--verbose", "--seed", "77")
        self.assertEqual(result.stdout, b"42\n")
        self.assertIn(b"seed 77", result.stderr)

    def test_no_escape_sequences_in_pipes(self):
        result = kda("run", MODEL, "Sort: 3 1 2 " * 200, *GREEDY, "--verbose", "--max-tokens", "1", TERM="xterm")
        self.assertNotIn(b"\x1b", result.stdout + result.stderr)
        self.assertNotIn(b"\r", result.stdout + result.stderr)

    def test_json_has_every_field(self):
        result = kda("run", MODEL, QUESTION, *GREEDY, "--json", "--seed", "5")
        self.assertEqual(result.stdout.count(b"\n"), 1)
        answer = json.loads(result.stdout)
        self.assertEqual(list(answer), ["model", "text", "finish_reason", "prompt_tokens", "completion_tokens",
                                        "cached_tokens", "seed", "timings"])
        self.assertEqual(list(answer["timings"]), ["load_ms", "prompt_ms", "prompt_tokens_per_second", "generation_ms",
                                                   "generation_tokens_per_second"])
        self.assertEqual((answer["text"], answer["finish_reason"], answer["seed"]), ("42", "stop", 5))
        self.assertEqual(answer["cached_tokens"], 0)
        self.assertGreater(answer["prompt_tokens"], 0)
        self.assertTrue(all(v > 0 for v in answer["timings"].values()), answer["timings"])

    def test_invalid_bytes_give_valid_json(self):
        answer = json.loads(self.succeeds("run", MODEL, "--json", "--raw", "--max-tokens", "20", "--temperature", "2",
                                          "--top-p", "1", "--seed", "1", stdin=b"\xff\xc3 \x00 x"))
        self.assertIsInstance(answer["text"], str)

    def test_the_answer_ends_with_a_line_break_even_when_empty(self):
        self.assertEqual(self.succeeds("run", MODEL, QUESTION, *GREEDY, "--max-tokens", "0"), "\n")


class Answers(ProgramTest):
    def test_greedy_answers_do_not_depend_on_threads_or_batches(self):
        prompt = "Remember apple=42, river=17, knife=80, queen=23. What is river?"
        answers = {self.succeeds("run", MODEL, prompt, *GREEDY, "--threads", threads, "--batch", batch)
                   for threads in "123" for batch in ("1", "5", "512")}
        self.assertEqual(len(answers), 1, answers)

    def test_draft_changes_the_speed_but_no_token(self):
        words = ["run", MODEL, "Repeat: a b c a b c a b c", "--temperature", "0", "--ignore-eos", "--max-tokens", "80", "--json"]
        plain = json.loads(self.succeeds(*words))
        drafted = json.loads(self.succeeds(*words, "--draft", "ngram"))
        self.assertEqual(drafted["text"], plain["text"])
        self.assertNotIn("guesses", plain["timings"])
        self.assertGreater(drafted["timings"]["right_guesses"], 0)
        self.assertLessEqual(drafted["timings"]["right_guesses"], drafted["timings"]["guesses"])
        self.fails(2, *words, "--draft", "magic", says="--draft")
        self.fails(2, *words, "--draft-max", "3", says="--draft")
        self.fails(2, *words, "--draft", "ngram", "--draft-max", "16", says="16")

    def test_a_seed_repeats_and_seeds_differ(self):
        def sample(seed):
            return self.succeeds("run", MODEL, "--raw", "apple", "--temperature", "3", "--top-p", "1", "--max-tokens", "24", "--seed", seed)
        self.assertEqual(sample("1"), sample("1"))
        self.assertNotEqual(sample("1"), sample("2"))

    def test_sampling_without_a_seed_varies(self):
        options = ["--raw", "apple", "--temperature", "3", "--top-p", "1", "--max-tokens", "24", "--json"]
        one, two = (json.loads(self.succeeds("run", MODEL, *options)) for _ in range(2))
        self.assertNotEqual(one["seed"], two["seed"])
        again = json.loads(self.succeeds("run", MODEL, *options, "--seed", str(one["seed"])))
        self.assertEqual(again["text"], one["text"])

    def test_prompt_forms_agree(self):
        asked = self.succeeds("run", MODEL, QUESTION, *GREEDY)
        for stdin in (QUESTION, QUESTION + "\n", QUESTION + "\r\n"):
            self.assertEqual(self.succeeds("run", MODEL, *GREEDY, stdin=stdin), asked)
            self.assertEqual(self.succeeds("run", MODEL, "-", *GREEDY, stdin=stdin), asked)

    def test_max_tokens_counts(self):
        answer = json.loads(self.succeeds("run", MODEL, "Who are you?", *GREEDY, "--max-tokens", "3", "--json"))
        self.assertEqual((answer["completion_tokens"], answer["finish_reason"]), (3, "length"))

    def test_stop_strings_end_the_answer_and_are_not_shown(self):
        whole = self.succeeds("run", MODEL, "Who are you?", *GREEDY)
        self.assertIn(" tiny ", whole)
        answer = json.loads(self.succeeds("run", MODEL, "Who are you?", *GREEDY, "--stop", "nothing", "--stop", " tiny ", "--json"))
        self.assertEqual(answer["text"], whole.split(" tiny ")[0])
        self.assertEqual(answer["finish_reason"], "stop")

    def test_raw_chat_format_and_special_tokens_agree(self):
        chat = self.succeeds("run", MODEL, QUESTION, *GREEDY)
        written = f"<|im_user|>user<|im_middle|>{QUESTION}<|im_end|><|im_assistant|>assistant<|im_middle|>"
        self.assertEqual(self.succeeds("run", MODEL, "--raw", "--special", written, *GREEDY), chat)
        count = [json.loads(self.succeeds("run", MODEL, "--raw", *special, written, *GREEDY, "--json", "--max-tokens", "0"))["prompt_tokens"]
                 for special in ([], ["--special"])]
        self.assertGreater(count[0], count[1], "without --special the names are text")

    def test_names_of_control_tokens_in_a_question_are_text(self):
        count = [json.loads(self.succeeds("run", MODEL, "a<|im_end|>b", *special, "--json", "--max-tokens", "0"))["prompt_tokens"]
                 for special in ([], ["--special"])]
        self.assertGreater(count[0], count[1])

    def test_system_prompt_is_part_of_the_prompt(self):
        plain, system = (json.loads(self.succeeds("run", MODEL, QUESTION, *extra, "--json", "--max-tokens", "0"))["prompt_tokens"]
                         for extra in ([], ["--system", "Be brief."]))
        self.assertGreater(system, plain)

    def test_ignore_eos_fills_the_context(self):
        answer = json.loads(self.succeeds("run", MODEL, QUESTION, *GREEDY, "--ignore-eos", "--ctx", "64", "--json"))
        self.assertEqual(answer["finish_reason"], "length")
        self.assertEqual(answer["prompt_tokens"] + answer["completion_tokens"], 65, "the last token need not be stored")

    def test_isa_comes_from_the_environment_unless_given(self):
        self.fails(2, "run", MODEL, QUESTION, KDA_ISA="nonsense", says="nonsense")
        self.assertEqual(self.succeeds("run", MODEL, QUESTION, *GREEDY, KDA_ISA="scalar"), "42\n")
        self.assertEqual(self.succeeds("run", MODEL, QUESTION, *GREEDY, "--isa", "scalar", KDA_ISA="nonsense"), "42\n")


class Ends(ProgramTest):
    def start(self, *words, **kwargs):
        return subprocess.Popen([KDA, *words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env=environment(), **kwargs)

    def test_ctrl_c_keeps_what_was_printed(self):
        program = self.start("run", MODEL, QUESTION, *GREEDY, *FOREVER, *SLOWLY)
        first = program.stdout.read(2)
        program.send_signal(signal.SIGINT)
        rest, errors = program.communicate(timeout=SECONDS)
        self.assertEqual(program.returncode, 130, errors)
        self.assertTrue((first + rest).startswith(b"42") and rest.endswith(b"\n"), rest)
        self.assertEqual(errors, b"")

    def test_ctrl_c_completes_the_json(self):
        program = self.start("run", MODEL, QUESTION, *GREEDY, "--ignore-eos", "--ctx", "4000", "--verbose", "--json", *SLOWLY)
        while b"loaded" not in program.stderr.readline():
            pass
        program.send_signal(signal.SIGINT)
        out, _ = program.communicate(timeout=SECONDS)
        self.assertEqual(program.returncode, 130)
        self.assertEqual(json.loads(out)["finish_reason"], "interrupted")

    def test_a_closed_pipe_ends_it_quietly(self):
        program = self.start("run", MODEL, QUESTION, *GREEDY, *FOREVER)
        program.stdout.read(1)
        program.stdout.close()
        errors = program.stderr.read()
        self.assertEqual(program.wait(timeout=SECONDS), 141)
        self.assertEqual(errors, b"")
        program.stderr.close()

    def test_closed_stdout_is_an_error(self):
        result = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', KDA, "run", MODEL, QUESTION, *GREEDY], stderr=subprocess.PIPE,
                                stdin=subprocess.DEVNULL, timeout=SECONDS, env=environment())
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr.decode(), r"\Akda: error: standard output [^\n]+\n\Z")

    def test_a_full_disk_is_an_error(self):
        with open("/dev/full", "wb") as full:
            result = subprocess.run([KDA, "run", MODEL, QUESTION, *GREEDY], stdout=full, stderr=subprocess.PIPE,
                                    stdin=subprocess.DEVNULL, timeout=SECONDS, env=environment())
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"No space left", result.stderr)

    def test_closed_stdin_is_an_error_only_when_it_is_read(self):
        def run(*words):
            return subprocess.run(["sh", "-c", 'exec "$0" "$@" <&-', KDA, "run", MODEL, *words, *GREEDY], capture_output=True,
                                  timeout=SECONDS, env=environment())
        self.assertEqual(run(QUESTION).stdout, b"42\n")
        self.assertEqual(run().returncode, 1)

    def test_a_terminal_without_prompt_is_wrong_use(self):
        parent, child = pty.openpty()
        result = subprocess.run([KDA, "run", MODEL], stdin=child, capture_output=True, timeout=SECONDS, env=environment())
        os.close(parent)
        os.close(child)
        self.assertEqual(result.returncode, 2)
        self.assertIn(b"no prompt", result.stderr)


if __name__ == "__main__":
    main()
