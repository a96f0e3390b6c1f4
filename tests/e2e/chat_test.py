#!/usr/bin/python3
"""kda chat: by lines on standard input, and on a terminal with its editor."""
import fcntl
import json
import os
import pty
import re
import select
import signal
import stat
import struct
import subprocess
import tempfile
import termios
import time

from support import GREEDY, KDA, MODEL, SECONDS, ProgramTest, environment, kda, main


class Lines(ProgramTest):
    def test_prints_answers_only_and_remembers(self):
        result = kda("chat", MODEL, *GREEDY, stdin="Remember apple=42, river=17. What is river?\n\nWhat is apple?\nWhat is 27+15?")
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, b"17\n42\n42\n", b""))

    def test_commands_work_and_speak_on_stderr(self):
        result = kda("chat", MODEL, *GREEDY, stdin="What is 27+15?\n/undo\n/retry\n/nonsense\n/help\n/exit\nWhat is 1+1?\n")
        self.assertEqual((result.returncode, result.stdout), (0, b"42\n"))
        for text in (b"Forgotten: What is 27+15?", b"no answer to retry", b"Unknown command /nonsense", b"/system"):
            self.assertIn(text, result.stderr)

    def test_the_same_seed_repeats_the_chat_and_retry_draws_anew(self):
        options = ["--temperature", "3", "--top-p", "1", "--max-tokens", "12", "--seed", "3"]
        first, second = (kda("chat", MODEL, *options, stdin="Hello\n/retry\n").stdout for _ in range(2))
        self.assertEqual(first, second)
        self.assertEqual(len(set(first.splitlines())), len(first.splitlines()))

    def test_a_full_context_ends_it_with_both_numbers(self):
        result = kda("chat", MODEL, *GREEDY, "--ctx", "20", stdin="Sort: 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7 8 9\n")
        self.assertEqual((result.returncode, result.stdout), (1, b""))
        self.assertRegex(result.stderr.decode(), r"\Akda: error: the conversation has \d+ tokens, but the context holds 20: [^\n]+\n\Z")

    def test_ctrl_c_ends_it_with_130(self):
        program = subprocess.Popen([KDA, "chat", MODEL, *GREEDY, "--ignore-eos", "--ctx", "4000"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
        program.stdin.write(b"What is 27+15?\n")
        program.stdin.flush()
        program.stdout.read(1)
        program.send_signal(signal.SIGINT)
        program.communicate(timeout=SECONDS)
        self.assertEqual(program.returncode, 130)

    def test_a_missing_chat_format_is_explained(self):
        with tempfile.TemporaryDirectory() as folder:
            copy = os.path.join(folder, "model")
            subprocess.run(["cp", "-r", MODEL, copy], check=True)
            path = os.path.join(copy, "tokenizer_config.json")
            with open(path) as f:
                text = f.read()
            with open(path, "w") as f:
                f.write(re.sub(r"<\|im_(\w+)\|>", r"<|other_\1|>", text))
            self.fails(1, "chat", copy, says="kda run --raw")
            self.assertEqual(kda("run", copy, "Hi", *GREEDY, "--max-tokens", "2").returncode, 0)
            self.fails(2, "run", copy, "Hi", "--system", "x", says="no chat format")


def process_state(pid):
    with open(f"/proc/{pid}/stat") as f:
        return f.read().rpartition(")")[2].split()[0]


def run_as_job():
    """Returns in a child that is the terminal's foreground job. The caller waits for it, as a shell would: without one, Ctrl-Z stops nothing."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        return
    os._exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 0xFF)


class Terminal:
    """kda chat on a pseudo-terminal."""

    def __init__(self, *words, columns=80, rows=24, job=False, **changes):
        self.seen = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            if job:
                run_as_job()
            os.execve(KDA, [KDA, "chat", MODEL, *words], environment(TERM="xterm", LC_ALL="C.UTF-8", **changes))
        self.resize(columns, rows)

    def resize(self, columns, rows):
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.fd, text.encode() if isinstance(text, str) else text)

    def read(self, seconds):
        """What comes within that time; None at the end."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return ""
        try:
            data = os.read(self.fd, 65536)
        except OSError:
            return None
        return data.decode(errors="replace") if data else None

    def expect(self, pattern, seconds=SECONDS):
        """Waits for text (escape sequences taken out) and consumes up to its end."""
        deadline = time.monotonic() + seconds
        while True:
            seen = re.sub(r"[^\n]*\r\x1b\[K", "", self.seen)  # a progress bar that was wiped away
            plain = re.sub(r"\x1b\[[?0-9;]*[A-Za-z]", "", seen).replace("\r", "")
            found = re.search(pattern, plain)
            if found:
                self.seen = plain[found.end():]
                return found.group(0)
            more = self.read(max(0.0, deadline - time.monotonic()))
            if not more:
                raise AssertionError(f"waited for {pattern!r}, saw {plain[-2000:]!r}")
            self.seen += more

    def until(self, holds, seconds=SECONDS):
        """Reads on until that is true."""
        deadline = time.monotonic() + seconds
        while not holds():
            if time.monotonic() > deadline:
                raise AssertionError(f"it never came true, saw {self.seen[-2000:]!r}")
            self.seen += self.read(0.01) or ""

    def ask(self, text, answer):
        self.type(text + "\r")
        self.expect(answer)
        self.expect(r">>> $")

    def end(self):
        """Exit status after reading everything that is left."""
        deadline = time.monotonic() + SECONDS
        while time.monotonic() < deadline and (more := self.read(1)) is not None:
            self.seen += more
        os.close(self.fd)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class OnTerminal(ProgramTest):
    def setUp(self):
        state = tempfile.TemporaryDirectory()
        self.addCleanup(state.cleanup)
        self.state = state.name

    def start(self, *words, **kwargs):
        terminal = Terminal(*GREEDY, *words, XDG_STATE_HOME=self.state, **kwargs)
        terminal.expect(r">>> $")
        return terminal

    def history(self):
        with open(os.path.join(self.state, "kda", "history")) as f:
            return f.read().splitlines()

    def test_answers_and_ends_with_ctrl_d(self):
        t = self.start()
        t.ask("What is 27+15?", r"\n42\n")
        t.type("\x04")
        self.assertEqual(t.end(), 0)

    def test_history_is_kept_for_the_owner_only(self):
        t = self.start()
        t.ask("What is 27+15?", r"\n42\n")
        t.ask("/undo", r"Forgotten: What is 27\+15\?")
        t.type("/exit\r")
        self.assertEqual(t.end(), 0)
        self.assertEqual(self.history(), ["What is 27+15?", "/undo", "/exit"])
        path = os.path.join(self.state, "kda", "history")
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        t = self.start()
        t.type("\x12" + "27")
        t.expect(r"What is 27\+15\?")
        t.ask("", r"\n42\n")
        t.type("\x1b[A\x1b[A\x1b[B")
        t.expect("What is 27")
        t.type("\x03")
        t.expect(r"Ctrl-D or /exit")
        t.type("\x04")
        self.assertEqual(t.end(), 0)

    def test_keys_while_a_command_runs_are_not_lost(self):
        path = os.path.join(self.state, "chat.json")
        with open(path, "w") as f:
            f.write('{"format": "other", "padding": [' + "0," * 1_500_000 + "0]}")  # takes a while to read
        t = self.start()
        t.type(f"/load {path}\r")
        t.expect(r"/load .*\n")
        t.type("//undo\x01\x04\r")  # the line editor's Ctrl-A and Ctrl-D, not the terminal's
        t.expect(r'expected "kda chat"')
        t.expect(r"nothing to undo")
        t.type("\x04")
        self.assertEqual(t.end(), 0)

    def test_stops_and_goes_on_in_the_middle_of_an_answer(self):
        t = self.start("--ignore-eos", "--ctx", "100000", job=True)
        job = os.tcgetpgrp(t.fd)
        t.type("What is 27+15?\r")
        t.expect(r"\n42")
        for stop in ("\x1a", signal.SIGSTOP):
            if isinstance(stop, str):
                t.type(stop)
            else:
                os.kill(job, stop)
            t.until(lambda: process_state(job) == "T")
            mode = termios.tcgetattr(t.fd)
            self.assertEqual(mode[3] & termios.ICANON != 0, isinstance(stop, str))  # nothing can be done before SIGSTOP
            mode[3] |= termios.ECHO | termios.ICANON  # as a shell sets it
            termios.tcsetattr(t.fd, termios.TCSANOW, mode)
            os.kill(job, signal.SIGCONT)
            t.until(lambda: not termios.tcgetattr(t.fd)[3] & (termios.ECHO | termios.ICANON))
        t.type("\x03")
        t.expect(r"\(stopped\)")
        t.expect(r">>> $")
        t.type("\x1a")
        t.until(lambda: process_state(job) == "T")
        os.kill(job, signal.SIGCONT)
        t.expect(r">>> $")
        t.type("\x04")
        self.assertEqual(t.end(), 0)

    def test_a_paste_of_several_lines_is_one_message(self):
        t = self.start()
        t.type("\x1b[200~What is\n27+15?\x1b[201~")
        t.expect(r"\.\.\. 27\+15\?")
        t.ask("", r"\n.*\n")
        t.type("\x04")
        self.assertEqual(t.end(), 0)
        self.assertEqual(self.history(), ["What is\\n27+15?"])

    def test_blocks_and_continued_lines(self):
        t = self.start()
        t.type('"""\rWhat is\r')
        t.expect(r"\.\.\. What is\n\.\.\. ")
        t.ask('27+15?"""', r"\n.*\n")
        t.type("What is \\\r")
        t.expect(r"\.\.\. ")
        t.ask("27+15?", r"\n.*\n")
        t.type("\x04")
        self.assertEqual(t.end(), 0)
        self.assertEqual(self.history(), ['"""\\nWhat is\\n27+15?"""', "What is \\n27+15?"])

    def test_ctrl_c_stops_the_answer_and_keeps_the_chat(self):
        t = self.start("--ignore-eos", "--ctx", "4000")
        t.type("What is 27+15?\r")
        t.expect(r"\n42")
        time.sleep(0.2)
        t.type("\x03")
        t.expect(r"\(stopped\)")
        t.expect(r">>> $")
        t.ask("/stats", r"conversation: 1 turn")
        t.type("half a line\x03")
        t.expect(r">>> $")
        t.type("\x04")
        self.assertEqual(t.end(), 0)

    def test_undo_and_retry_reuse_what_is_known(self):
        t = self.start()
        t.ask("Remember apple=42, river=17. What is river?", r"\n17\n")
        t.ask("/stats", r"prompt: \d+ tokens, ")
        t.ask("What is apple?", r"\n42\n")
        t.ask("/stats", r"prompt: \d+ tokens \(\d+ cached\)")
        t.ask("/retry", r"\n42\n")
        t.ask("/stats", r"prompt: \d+ tokens \(\d+ cached\)")
        t.ask("/undo", r"Forgotten: What is apple\?")
        t.ask("/stats", r"conversation: 1 turn")
        t.ask("What is apple?", r"\n42\n")
        t.type("\x04")
        self.assertEqual(t.end(), 0)

    def test_save_and_load(self):
        path = os.path.join(self.state, "chat.json")
        t = self.start("--system", "Be brief.")
        t.ask("Remember apple=42, river=17. What is river?", r"\n.+\n")
        t.ask(f"/save {path}", r"Saved 3 messages")
        t.ask("/clear", r"forgotten")
        t.type("\x04")
        self.assertEqual(t.end(), 0)
        self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), 0o600)
        with open(path) as f:
            saved = json.load(f)
        self.assertEqual([m["role"] for m in saved["messages"]], ["system", "user", "assistant"])
        self.assertEqual(saved["options"]["temperature"], 0)
        t = self.start()
        t.ask(f"/load {path}", r"Loaded 3 messages")
        t.ask("/system", r"Be brief\.")
        t.ask("/system \"\"", r"gone")
        t.ask("/undo", r"Forgotten: Remember")
        t.ask(f"/load {path}x", r"error: .*chat\.jsonx")
        t.ask("/save /nonexistent/x", r"error: ")
        t.ask("/load", r"needs the name")
        with open(path, "w") as f:
            f.write('{"format": "other"}')
        t.ask(f"/load {path}", r'expected "kda chat"')
        t.ask("/undo", r"nothing to undo")
        t.type("\x04")
        self.assertEqual(t.end(), 0)

    def test_a_full_context_is_explained_and_the_chat_goes_on(self):
        t = self.start("--ctx", "30")
        t.ask("Sort: 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6 7 8 9 1 2 3 4 5 6", r"conversation has \d+ tokens, but the context\s+holds 30")
        t.ask("What is 27+15?", r"\n42\n")
        t.type("\x04")
        self.assertEqual(t.end(), 0)

    def test_tab_completes_and_unknown_commands_are_named(self):
        t = self.start()
        t.type("/he\t")
        t.expect(r"/help ")
        t.ask("", r"/clear")
        t.type("/s\t\t")
        t.expect(r"/system  /save  /stats")
        t.type("\x15")
        t.ask("/frobnicate", r"Unknown command /frobnicate")
        t.type("\x04")
        self.assertEqual(t.end(), 0)

    def test_narrow_and_resized_terminals(self):
        t = self.start(columns=20, rows=5)
        t.type("What is the sum of ")
        t.resize(7, 3)
        os.kill(t.pid, signal.SIGWINCH)
        t.type("漢字漢字漢字漢字é\x1b[D\x1b[D\x7f")
        t.resize(100, 30)
        os.kill(t.pid, signal.SIGWINCH)
        t.ask("\x05\x15What is 27+15?", r"\n42\n")
        t.type("\x04")
        self.assertEqual(t.end(), 0)

    def test_the_terminal_is_left_as_it_was(self):
        for ending in ("\x04", signal.SIGTERM, signal.SIGHUP):
            parent, child = pty.openpty()
            before = termios.tcgetattr(child)
            program = subprocess.Popen([KDA, "chat", MODEL], stdin=child, stdout=child, stderr=subprocess.DEVNULL,
                                       env=environment(TERM="xterm", XDG_STATE_HOME=self.state), start_new_session=True)
            seen = b""
            while b">>> " not in seen:
                seen += os.read(parent, 65536)
            self.assertNotEqual(termios.tcgetattr(child), before)
            if isinstance(ending, str):
                os.write(parent, ending.encode())
            else:
                program.send_signal(ending)
            program.wait(timeout=SECONDS)
            self.assertEqual(termios.tcgetattr(child), before)
            os.close(parent)
            os.close(child)


if __name__ == "__main__":
    main()
