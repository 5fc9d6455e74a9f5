"""passes.py ROOT: a pass has one name in four places.

`def FuseDequantLinearPass : Pass<"lm-fuse-dequant-linear">` is in passes/FuseDequantLinear.cpp and tested with that flag in
test/passes/fuse-dequant-linear.mlir. Prints what is missing.
"""

import pathlib
import re
import sys

DEFINITION = re.compile(r'def\s+(\w+)Pass\s*:\s*Pass<"([^"]+)"', re.S)


def main():
    root = pathlib.Path(sys.argv[1])
    missing = []
    definitions = DEFINITION.findall((root / "passes/Passes.td").read_text())
    for name, flag in definitions:
        words = re.findall("[A-Z][a-z]*", name)
        test = "test/passes/" + "-".join(words).lower() + ".mlir"
        if not (root / "passes" / f"{name}.cpp").exists():
            missing.append(f"passes/{name}.cpp: is missing")
        if not (root / test).exists():
            missing.append(f"{test}: is missing")
        elif not re.search(rf"RUN:.*--{flag}\b", (root / test).read_text()):
            missing.append(f"{test}: does not run --{flag}")
        if not {word.capitalize() for word in flag.split("-")} - {"Lm", "Plan"} <= set(words):
            missing.append(f"passes/Passes.td: {name} and {flag} are two names")
    print("\n".join(missing))
    if missing or not definitions:
        sys.exit(f"{len(missing)} faults in {len(definitions)} passes")


if __name__ == "__main__":
    main()
