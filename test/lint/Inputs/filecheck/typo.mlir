// RUN: qopt %s | FileCheck %s
// CHECK-LABLE: func @a
// CHECK: b
