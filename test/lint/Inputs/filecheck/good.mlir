// RUN: qopt %s | FileCheck %s
// RUN: qopt %s \
// RUN:   | FileCheck %s --check-prefixes=ONE,TWO-PARTS
// CHECK-LABEL: a
// A sentence: with a colon.
// CHECK-NOT: b
// CHECK-COUNT-2: c
// ONE-SAME: d
// TWO-PARTS-NEXT: e
