"""Runs the program under test. $KDA names it, $KDA_MODEL the demo model."""
import os
import subprocess
import unittest

KDA = os.environ["KDA"]
MODEL = os.environ["KDA_MODEL"]
GREEDY = ["--temperature", "0"]
SECONDS = 120  # far beyond what anything here takes, sanitizers included


def environment(**changes):
    """The caller's environment without what would change the program's ways."""
    env = {k: v for k, v in os.environ.items() if k not in ("KDA_ISA", "NO_COLOR")}
    env.update(changes)
    return env


def kda(*words, stdin=b"", **changes):
    """Result with bytes in stdout and stderr."""
    if isinstance(stdin, str):
        stdin = stdin.encode()
    return subprocess.run([KDA, *words], input=stdin, capture_output=True, timeout=SECONDS, env=environment(**changes))


class ProgramTest(unittest.TestCase):
    def succeeds(self, *words, **kwargs):
        """Standard output as text."""
        result = kda(*words, **kwargs)
        self.assertEqual(result.returncode, 0, result.stderr.decode(errors="replace"))
        return result.stdout.decode()

    def fails(self, status, *words, says="", **kwargs):
        """One sentence on standard error, nothing on standard output, the given status."""
        result = kda(*words, **kwargs)
        message = result.stderr.decode()
        self.assertEqual(result.returncode, status, message)
        self.assertEqual(result.stdout, b"")
        self.assertRegex(message, r"\Akda: error: [^\n]+\n\Z")
        self.assertIn(says, message)
        return message


def main():
    unittest.main(verbosity=1)
