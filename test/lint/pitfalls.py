"""pitfalls.py ROOT: every test that docs/pitfalls-status.md names exists and says the entry, and every entry names a test or a reason.

A gtest says an entry on its first line or in the comment above, a file anywhere. Prints tests that are not below ROOT/test or do not
say the entry, tests that say one that does not name them, entries without a word in the last column, and numbers left out.
"""

import pathlib
import re
import sys

ROW = re.compile(r"^\| P(\d)\.(\d\d) \|(.*)\|(.*)\|$")
ENTRY = re.compile(r"\bP\d\.\d\d\b")
GTEST = re.compile(r"`([A-Z]\w+)\.([A-Za-z]\w+)`")
FILE = re.compile(r"\b[\w/-]+\.(?:test|mlir|cpp)\b")
DEFINITION = re.compile(r"^((?://.*\n)*)TEST(?:_F|_P)?\(\s*(\w+),\s*(\w+)\)(.*)$", re.M)


def main():
    root = pathlib.Path(sys.argv[1])
    # By test, which entries it says.
    said = {}
    for path in (root / "test").rglob("*Test.cpp"):
        for above, suite, name, behind in DEFINITION.findall(path.read_text()):
            said.setdefault((suite, name), set()).update(ENTRY.findall(above + behind))
    problems, last, named = [], (0, 0), set()
    for line in (root / "docs/pitfalls-status.md").read_text().splitlines():
        row = ROW.match(line)
        if not row:
            continue
        group, number = int(row[1]), int(row[2])
        entry = f"P{row[1]}.{row[2]}"
        if (group, number) not in ((last[0], last[1] + 1), (last[0] + 1, 1)):
            problems.append(f"{entry}: comes behind P{last[0]}.{last[1]:02}")
        last = (group, number)
        if not row[4].strip():
            problems.append(f"{entry}: names no test and no reason")
        for test in GTEST.findall(row[4]):
            named.add((test, entry))
            if test not in said:
                problems.append(f"{entry}: there is no test {'.'.join(test)}")
            elif entry not in said[test]:
                problems.append(f"{entry}: {'.'.join(test)} does not say it")
        for path in FILE.findall(GTEST.sub("", row[4])):
            if not (root / "test" / path).is_file():
                problems.append(f"{entry}: there is no file test/{path}")
            elif entry not in ENTRY.findall((root / "test" / path).read_text()):
                problems.append(f"{entry}: test/{path} does not say it")
    for test, entries in sorted(said.items()):
        problems += [f"{'.'.join(test)}: {entry} does not name it" for entry in sorted(entries) if (test, entry) not in named]
    if last == (0, 0):
        problems.append("docs/pitfalls-status.md has no entries")
    print("\n".join(problems))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
