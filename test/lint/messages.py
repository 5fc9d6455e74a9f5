"""messages.py ROOT: every message of a verifier and of a pass has a case.

Reads the messages of dialects/*/*.cpp, and prints those that no expected-error of test/dialects/*/*invalid.mlir shows in
full; then those of passes/*.cpp and the tests of passes.
"""

import pathlib
import re
import sys

START = re.compile(r"\b(?:emitOpError|emitError|emit)\(")
STRING = re.compile(r'"((?:[^"\\]|\\.)*)"')


def read_statement(text, begin):
    """The text from BEGIN to the end of its statement, and the depth of parentheses of every character."""
    depth, depths, position = 0, [], begin
    while position < len(text):
        if text[position] == '"':
            end = STRING.match(text, position).end()
            depths += [depth] * (end - position)
            position = end
            continue
        if text[position] == ";" and depth <= 0:
            break
        depth += {"(": 1, ")": -1}.get(text[position], 0)
        depths.append(depth)
        position += 1
    return text[begin:position], depths


def get_pattern(statement, depths):
    """A regular expression for what STATEMENT prints: what is not a literal may be anything. Empty without a literal."""
    pieces, last = [], 0
    call_end = depths.index(0)
    for match in STRING.finditer(statement):
        # The literal in the call itself is one deep, those behind << are not.
        if depths[match.start()] != (1 if match.start() < call_end else 0):
            continue
        if pieces and re.sub(r"[\s()]|<<", "", statement[last : match.start()]):
            pieces.append(".*")
        pieces.append(re.escape(match[1]))
        last = match.end()
    return re.sub(r"(\\ )+$", "", "".join(pieces))


def check(root, sources, tests):
    """How many messages the files SOURCES have, and how many of them no file of TESTS shows."""
    expected = []
    for path in root.glob(tests):
        expected += re.findall(r"expected-error\s*@\S+\s*\{\{(.*)\}\}", path.read_text())
    missing = messages = 0
    for path in sorted(root.glob(sources)):
        text = path.read_text()
        for match in START.finditer(text):
            pattern = get_pattern(*read_statement(text, match.end() - 1))
            if not pattern:
                continue
            messages += 1
            if any(re.search(pattern, message) for message in expected):
                continue
            line = text.count("\n", 0, match.start()) + 1
            print(f"{path.relative_to(root)}:{line}: no case shows: {pattern}")
            missing += 1
    return messages, missing


def main():
    root = pathlib.Path(sys.argv[1])
    missing = messages = 0
    for sources, tests in [("dialects/*/*.cpp", "test/dialects/*/*invalid.mlir"), ("passes/*.cpp", "test/passes/*.mlir")]:
        found, unseen = check(root, sources, tests)
        messages, missing = messages + found, missing + unseen
    if missing or not messages:
        sys.exit(f"{missing} of {messages} messages have no case")


if __name__ == "__main__":
    main()
