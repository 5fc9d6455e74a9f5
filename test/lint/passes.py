"""passes.py ROOT: a pass has one name in four places.

`def FuseDequantLinearPass : Pass<"lm-fuse-dequant-linear">` is in passes/FuseDequantLinear.cpp and tested with that flag in
test/passes/fuse-dequant-linear.mlir, which shows what the pass must not do (a `negative_` case, or an error) and, where it has
the option, what it reports. Prints what is missing.
"""

import pathlib
import re
import sys

DEFINITION = re.compile(r'def\s+(\w+)Pass\s*:\s*Pass<"([^"]+)"(.*?)\n}', re.S)


def main():
    root = pathlib.Path(sys.argv[1])
    missing = []
    definitions = DEFINITION.findall((root / "passes/Passes.td").read_text())
    for name, flag, body in definitions:
        words = re.findall("[A-Z][a-z]*", name)
        test = "test/passes/" + "-".join(words).lower() + ".mlir"
        if not (root / "passes" / f"{name}.cpp").exists():
            missing.append(f"passes/{name}.cpp: is missing")
        if not (root / test).exists():
            missing.append(f"{test}: is missing")
        else:
            text = (root / test).read_text()
            if not re.search(rf"RUN:.*--{flag}\b", text):
                missing.append(f"{test}: does not run --{flag}")
            if not re.search(r"@negative_|expected-error", text):
                missing.append(f"{test}: has no negative case")
            if "ReportOption" in body and f"REPORT: remark: {flag}:" not in text:
                missing.append(f"{test}: does not look at --{flag}=report")
        if not {word.capitalize() for word in flag.split("-")} - {"Lm", "Plan"} <= set(words):
            missing.append(f"passes/Passes.td: {name} and {flag} are two names")
    print("\n".join(missing))
    if missing or not definitions:
        sys.exit(f"{len(missing)} faults in {len(definitions)} passes")


if __name__ == "__main__":
    main()
