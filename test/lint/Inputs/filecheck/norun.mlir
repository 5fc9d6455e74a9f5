// CHECK: b
