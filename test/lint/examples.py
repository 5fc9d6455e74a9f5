"""examples.py ROOT: examples in the descriptions of ops are lines of the tests.

Prints every example of dialects/<d>/*.td that test/dialects/<d>/*ops.mlir do not have word for word, apart from
indentation. A line of dots stands for anything.
"""

import pathlib
import re
import sys

EXAMPLE = re.compile(r"Example:\s*```mlir\n(.*?)```", re.S)


def strip_lines(text):
    return [line.strip() for line in text.strip().splitlines()]


def contains(lines, part):
    return any(lines[i : i + len(part)] == part for i in range(len(lines)))


def main():
    root = pathlib.Path(sys.argv[1])
    missing = examples = 0
    for path in sorted(root.glob("dialects/*/*.td")):
        tests = sorted((root / "test" / path.parent.relative_to(root)).glob("*ops.mlir"))
        lines = strip_lines("\n".join(test.read_text() for test in tests))
        text = path.read_text()
        for match in EXAMPLE.finditer(text):
            examples += 1
            parts = [strip_lines(part) for part in re.split(r"^\s*\.\.\.\s*$", match[1], flags=re.M)]
            if all(contains(lines, part) for part in parts):
                continue
            print(f"{path.relative_to(root)}:{text.count(chr(10), 0, match.start()) + 1}: not in the tests of ops")
            missing += 1
    if missing or not examples:
        sys.exit(f"{missing} of {examples} examples are not in the tests")


if __name__ == "__main__":
    main()
