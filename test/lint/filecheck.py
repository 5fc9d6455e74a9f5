"""filecheck.py ROOT: lit tests that test less than they say.

FileCheck ignores what it does not know: a prefix with a typing error, a directive without its colon. Prints those, and
tests in which all that is checked is that something is absent.
"""

import pathlib
import re
import sys

SUFFIXES = {"NEXT", "SAME", "NOT", "DAG", "LABEL", "EMPTY", "COUNT"}
LIT = {"RUN", "REQUIRES", "UNSUPPORTED", "XFAIL", "DEFINE", "REDEFINE"}
# In .test files comments need no mark.
DIRECTIVE = re.compile(r"^\s*(?://|#)?\s*([A-Z][A-Z0-9_]*)((?:-[A-Z0-9]+)*)(:?)(\{LITERAL\}:)?(?=\s|$)")


def get_prefixes(text):
    """The prefixes that the RUN lines of TEXT give to FileCheck."""
    runs = "\n".join(re.findall(r"^\s*(?://|#)?\s*RUN:(.*)$", text, re.M)).replace("\\\n", " ")
    prefixes = set()
    for command in re.findall(r"FileCheck([^|\n]*)", runs):
        given = re.findall(r"--?check-prefix(?:es)?[= ](\S+)", command)
        prefixes.update(name for names in given for name in names.split(",")) if given else prefixes.add("CHECK")
    return prefixes


def split_directive(name, suffix, prefixes):
    """Prefix and directive of NAME + SUFFIX; prefixes may have dashes too."""
    whole = name + suffix
    for prefix in sorted(prefixes, key=len, reverse=True):
        if whole == prefix:
            return prefix, ""
        if whole.startswith(prefix + "-") and whole[len(prefix) + 1 :].split("-")[0] in SUFFIXES:
            return prefix, whole[len(prefix) + 1 :]
    return None, whole


def check(text):
    """Yields line number and fault of every fault in TEXT."""
    prefixes = get_prefixes(text)
    kinds = {prefix: set() for prefix in prefixes}
    for number, line in enumerate(text.splitlines(), 1):
        match = DIRECTIVE.match(line)
        if not match or match[1] in LIT:
            continue
        prefix, directive = split_directive(match[1], match[2], prefixes)
        colon = bool(match[3] or match[4])
        if prefix and not colon:
            yield number, f"'{match[1]}{match[2]}' has no colon"
        elif prefix:
            kinds[prefix].add(directive)
        elif colon:
            yield number, f"'{directive}' is not a prefix of this test"
    for prefix, directives in kinds.items():
        if directives == {"NOT"}:
            yield 1, f"'{prefix}' only says what is absent"


def main():
    root = pathlib.Path(sys.argv[1])
    faults = checked = 0
    for path in sorted(root.rglob("*")):
        if path.suffix not in {".mlir", ".test"} or "Inputs" in path.relative_to(root).parts:
            continue
        checked += 1
        text = path.read_text()
        if not re.search(r"^\s*(?://|#)?\s*RUN:", text, re.M):
            print(f"{path.relative_to(root)}:1: has no RUN line")
            faults += 1
        for number, fault in check(text):
            print(f"{path.relative_to(root)}:{number}: {fault}")
            faults += 1
    if faults or not checked:
        sys.exit(f"{faults} faults in {checked} tests")


if __name__ == "__main__":
    main()
