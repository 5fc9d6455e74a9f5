"""pitfalls.py ROOT: every test that docs/pitfalls-status.md names exists, and every entry names a test or a reason.

Prints entries whose tests are not below ROOT/test, entries without a word in the last column, and numbers that are left out.
"""

import pathlib
import re
import sys

ROW = re.compile(r"^\| P(\d)\.(\d\d) \|(.*)\|(.*)\|$")
GTEST = re.compile(r"`([A-Z]\w+)\.([A-Za-z]\w+)`")
FILE = re.compile(r"\b[\w/-]+\.(?:test|mlir|cpp)\b")
DEFINITION = re.compile(r"^TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)", re.M)


def main():
    root = pathlib.Path(sys.argv[1])
    defined = {pair for path in (root / "test").rglob("*Test.cpp") for pair in DEFINITION.findall(path.read_text())}
    problems, last = [], (0, 0)
    for line in (root / "docs/pitfalls-status.md").read_text().splitlines():
        row = ROW.match(line)
        if not row:
            continue
        group, number = int(row[1]), int(row[2])
        name = f"P{row[1]}.{row[2]}"
        if (group, number) not in ((last[0], last[1] + 1), (last[0] + 1, 1)):
            problems.append(f"{name}: comes behind P{last[0]}.{last[1]:02}")
        last = (group, number)
        if not row[4].strip():
            problems.append(f"{name}: names no test and no reason")
        for test in GTEST.findall(row[4]):
            if test not in defined:
                problems.append(f"{name}: there is no test {'.'.join(test)}")
        for path in FILE.findall(GTEST.sub("", row[4])):
            if not (root / "test" / path).is_file():
                problems.append(f"{name}: there is no file test/{path}")
    if last == (0, 0):
        problems.append("docs/pitfalls-status.md has no entries")
    print("\n".join(problems))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
