// RUN: qopt %s | FileCheck %s
// CHECK-LABEL func @a
// CHECK: b
