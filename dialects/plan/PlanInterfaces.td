//===- PlanInterfaces.td - What all packings can say ----------------------===//

#ifndef TANDEM_DIALECTS_PLAN_PLANINTERFACES_TD
#define TANDEM_DIALECTS_PLAN_PLANINTERFACES_TD

include "mlir/IR/OpBase.td"

def Plan_PackingInterface : AttrInterface<"PackingAttrInterface"> {
  let cppNamespace = "::tandem::plan";
  let description = [{
    A layout that the kernels read. `codegen/WeightPacker.cpp` writes it from the tensors of a checkpoint.
  }];
  let methods = [
    InterfaceMethod<"Bytes of the packed weight.", "int64_t", "getSizeInBytes">,
    InterfaceMethod<"How many checkpoint tensors it is made from.", "int64_t",
                    "getSourceCount">
  ];
}

#endif // TANDEM_DIALECTS_PLAN_PLANINTERFACES_TD
