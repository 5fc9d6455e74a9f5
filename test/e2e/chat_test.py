#!/usr/bin/env python3
"""`qrun chat` in a terminal, and without one.

    chat_test.py QRUN PAIR.tandem
"""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
import time
import unittest

QRUN, PAIR = sys.argv.pop(1), sys.argv.pop(1)
COMMAND = [QRUN, "chat", PAIR, "--threads", "1", "--template", "qwen3.5"]
GREEDY = ["--temperature", "0"]
CTRL_A, CTRL_C, CTRL_D = b"\x01", b"\x03", b"\x04"
UP = b"\x1b[A"


def answer(question, *flags):
    """What one question gets on the command line, greedily."""
    command = [QRUN, PAIR, "--threads", "1", "--chat", "-p", question, "--json"]
    command += ["--template", "qwen3.5", *flags]
    return json.loads(subprocess.check_output(command))["text"]


class Terminal:
    """A conversation in a terminal of its own."""

    def __init__(self, *flags):
        self.process, self.file = pty.fork()
        if self.process == 0:
            os.environ.update(TERM="xterm", LC_ALL="C.UTF-8")
            os.environ.pop("NO_COLOR", None)
            os.execv(QRUN, [*COMMAND, *flags])
        self.text = ""

    def send(self, data):
        os.write(self.file, data if isinstance(data, bytes) else data.encode())

    def read_until(self, pattern, seconds=120):
        """The text up to and with PATTERN."""
        end = time.monotonic() + seconds
        while not (found := re.search(pattern, self.text, re.S)):
            ready, _, _ = select.select([self.file], [], [], 0.2)
            data = b""
            if ready:
                try:
                    data = os.read(self.file, 65536)
                except OSError:  # The other side has ended.
                    break
            if time.monotonic() > end:
                raise AssertionError(f"no {pattern!r} in {self.text!r}")
            self.text += data.decode("utf-8", "replace")
        found = re.search(pattern, self.text, re.S)
        if not found:
            raise AssertionError(f"ended before {pattern!r}: {self.text!r}")
        read, self.text = self.text[: found.end()], self.text[found.end() :]
        return read

    def prompt(self):
        text = self.read_until(r"(^|[\r\n])[^\r\n]{0,8}> ")
        # What is typed now is for the line editor.
        while termios.tcgetattr(self.file)[3] & termios.ICANON:
            time.sleep(0.01)
        return text

    def read_answer(self, text):
        """Reads TEXT, a known answer, and the prompt behind it."""
        lines = [re.escape(line) for line in text.strip().split("\n")]
        self.read_until("\r\n".join(lines) + "[\r\n]")
        self.text = "\n" + self.text.lstrip("\r\n")
        self.prompt()

    def ask(self, line):
        """The answer to LINE, without its echo."""
        self.send(line + "\r")
        text = self.prompt().replace("\r", "")
        return text.rpartition(line + "\n")[2].rpartition("\n")[0]

    def end(self, data=CTRL_D):
        self.send(data)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if select.select([self.file], [], [], 0.05)[0]:
                try:
                    self.text += os.read(self.file, 65536).decode()
                except OSError:
                    pass
            done, status = os.waitpid(self.process, os.WNOHANG)
            if done:
                os.close(self.file)
                return os.waitstatus_to_exitcode(status)
        os.kill(self.process, signal.SIGKILL)
        raise AssertionError(f"does not end: {self.text!r}")


class InTerminal(unittest.TestCase):
    def test_conversation(self):
        flags = ["-n", "12", "--no-thinking", *GREEDY]
        terminal = Terminal(*flags)
        self.assertIn("/help", terminal.prompt())
        expected = answer("Hello", "-n", "12", "--no-thinking")
        first = terminal.ask("Hello")
        self.assertEqual(first.strip(), expected.strip())
        # The second question stands behind the first one and its answer...
        second = terminal.ask("Hello")
        self.assertNotEqual(second, first)
        statistics = terminal.ask("/stats")
        self.assertRegex(statistics, r"answer \d+ tokens, [\d.]+ tok")
        # The first question is not computed again.
        known = re.search(r"\((\d+) of them known\)", statistics)
        self.assertGreater(int(known[1]), 3)
        # ... until all of that is forgotten.
        self.assertIn("forgotten", terminal.ask("/reset"))
        self.assertEqual(terminal.ask("Hello"), first)
        self.assertIn("/reset", terminal.ask("/help"))
        self.assertIn("there is no /nothing", terminal.ask("/nothing"))
        self.assertEqual(terminal.end(), 0)

    def test_line_editing(self):
        terminal = Terminal("-n", "8", "--no-thinking", *GREEDY)
        terminal.prompt()
        expected = answer("Hello", "-n", "8", "--no-thinking")
        # Typed out of order, with a mistake.
        terminal.send(b"loX\x7f" + CTRL_A + b"Hel\r")
        terminal.read_answer(expected)
        terminal.ask("/reset")
        # The line before /reset, from the history.
        terminal.send(UP + UP + b"\r")
        terminal.read_answer(expected)
        # Letters of several bytes, and a line that goes on.
        terminal.ask("/reset")
        terminal.send("Grüße \\\r")
        terminal.read_until(r"\.\.\. ")
        terminal.send("日本\r")
        terminal.read_answer(
            answer("Grüße \n日本", "-n", "8", "--no-thinking")
        )
        self.assertEqual(terminal.end(), 0)

    def test_ctrl_c_stops_the_answer(self):
        terminal = Terminal("-n", "100000", "--ignore-eos", *GREEDY)
        terminal.prompt()
        terminal.send("Hello\r")
        # Thinking is dim.
        terminal.read_until(r"\x1b\[2m.{20}")
        terminal.send(CTRL_C)
        # It does not stay dim.
        self.assertIn("\x1b[0m", terminal.prompt())
        self.assertRegex(terminal.ask("/stats"), r"answer \d+ tokens")
        # At the prompt it takes the line away and nothing else.
        terminal.send(b"something" + CTRL_C)
        terminal.prompt()
        self.assertIn("thinking is off", terminal.ask("/thinking off"))
        terminal.send("Hello\r")
        terminal.read_until(r"Hello\r\n.{20}")
        terminal.send(CTRL_C)
        self.assertNotIn("\x1b[2m", terminal.prompt())
        self.assertEqual(terminal.end("/exit\r"), 0)

    def test_samples_as_recommended(self):
        texts = set()
        for seed in ("1", "1", "2"):
            terminal = Terminal("-n", "16", "--no-thinking", "--seed", seed)
            terminal.prompt()
            texts.add(terminal.ask("Hello"))
            terminal.end()
        self.assertEqual(len(texts), 2)

    def test_question_that_is_too_long(self):
        terminal = Terminal("-n", "4", "--no-thinking", *GREEDY)
        terminal.prompt()
        for _ in range(9):
            terminal.send("word " * 190 + "\\\r")
            terminal.read_until(r"\.\.\. ")
        terminal.send("\r")
        terminal.prompt()
        # The conversation goes on.
        self.assertIn("forgotten", terminal.ask("/reset"))
        self.assertEqual(terminal.end(), 0)


class WithoutTerminal(unittest.TestCase):
    def run_chat(self, text, *flags):
        return subprocess.run(
            [*COMMAND, *flags], input=text, capture_output=True, text=True,
            timeout=300,
        )

    def test_pipe(self):
        flags = ["-n", "8", "--no-thinking"]
        result = self.run_chat("Hello\r\n\n/reset\nHello\n", *flags, *GREEDY)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        text = answer("Hello", *flags)
        self.assertEqual(
            result.stdout,
            f"{text}\nthe conversation is forgotten\n{text}\n",
        )
        self.assertNotIn("\x1b", result.stdout)

    def test_last_line_that_goes_on(self):
        flags = ["-n", "8", "--no-thinking"]
        result = self.run_chat("Hello\\\nyou\\", *flags, *GREEDY)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, answer("Hello\nyou\n", *flags) + "\n")

    def start_answer(self):
        """A chat in the middle of an answer without an end."""
        chat = subprocess.Popen(
            [*COMMAND, "-n", "100000", "--ignore-eos"], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )
        chat.stdin.write(b"Hello\n")
        chat.stdin.flush()
        chat.stdout.read(1)
        return chat

    def test_reader_that_leaves(self):
        chat = self.start_answer()
        chat.stdout.close()
        chat.wait(60)
        self.assertEqual((chat.returncode, chat.stderr.read()), (0, b""))
        chat.stdin.close()
        chat.stderr.close()

    def test_signal(self):
        chat = self.start_answer()
        chat.send_signal(signal.SIGINT)
        _, errors = chat.communicate(timeout=60)
        self.assertEqual((chat.returncode, errors), (130, b""))

    def test_mistakes(self):
        for flags, code, word in (
            ([], 1, "choose one with --template qwen3, qwen3.5 or qwen3.6"),
            (["--template", "llama"], 2, "unknown chat template 'llama'"),
            (["--temperature", "-1"], 2, "temperature"),
            (["--temperatur", "1"], 2, "--temperatur"),
            (["--top-k", "x"], 2, "--top-k"),
            (["--stop", ""], 2, "--stop"),
            (["--logit-bias", "7"], 2, "TOKEN=BIAS"),
            (["--draft-sampling", "best"], 2, "--draft-sampling"),
        ):
            known = ["--template", "qwen3.5"]
            if not flags or flags[0] == "--template":
                known = []
            result = subprocess.run(
                [QRUN, "chat", PAIR, *known, *flags], input="", text=True,
                capture_output=True,
            )
            self.assertEqual(result.returncode, code, (flags, result.stderr))
            self.assertIn(word, result.stderr)
            self.assertEqual(result.stdout, "")


if __name__ == "__main__":
    unittest.main()
