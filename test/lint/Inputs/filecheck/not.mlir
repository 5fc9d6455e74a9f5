// RUN: qopt %s | FileCheck %s
// CHECK-NOT: b
