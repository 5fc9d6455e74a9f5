//===- CudaContext.cpp - A GPU of this machine ----------------------------===//

#include "runtime/cuda/CudaContext.h"

namespace tandem::cuda {

StatusOr<CudaContext> CudaContext::create(const CudaApi &api,
                                          unsigned ordinal) {
  int count = 0;
  TANDEM_RETURN_IF_ERROR(
      api.status(api.deviceGetCount(&count), "cuDeviceGetCount"));
  if (count <= 0)
    return failure(StatusCode::Unsupported, "there is no GPU");
  if (ordinal >= unsigned(count))
    return invalidArgument("there is no device cuda:", ordinal,
                           ": this machine has ", count,
                           count == 1 ? " GPU, cuda:0" : " GPUs, from cuda:0");
  DeviceNumber device = 0;
  TANDEM_RETURN_IF_ERROR(api.status(api.deviceGet(&device, int(ordinal)),
                                    "cuDeviceGet of cuda:", ordinal));
  CudaContext result(api, device);
  TANDEM_RETURN_IF_ERROR(result.describeDevice());
  TANDEM_RETURN_IF_ERROR(
      api.status(api.primaryContextRetain(&result.context, device),
                 "cuDevicePrimaryCtxRetain of cuda:", ordinal));
  TANDEM_RETURN_IF_ERROR(result.makeCurrent());
  return result;
}

CudaContext::~CudaContext() {
  if (context)
    (void)api->primaryContextRelease(device);
}

StatusOr<int> CudaContext::attribute(DeviceAttribute attribute) const {
  int value = 0;
  TANDEM_RETURN_IF_ERROR(
      api->status(api->deviceGetAttribute(&value, attribute, device),
                  "cuDeviceGetAttribute ", static_cast<int>(attribute)));
  return value;
}

Status CudaContext::describeDevice() {
  char text[256] = "";
  TANDEM_RETURN_IF_ERROR(api->status(
      api->deviceGetName(text, sizeof(text) - 1, device), "cuDeviceGetName"));
  deviceName = text;
  TANDEM_ASSIGN_OR_RETURN(int major,
                          attribute(DeviceAttribute::ComputeCapabilityMajor));
  TANDEM_ASSIGN_OR_RETURN(int minor,
                          attribute(DeviceAttribute::ComputeCapabilityMinor));
  TANDEM_ASSIGN_OR_RETURN(
      int shared, attribute(DeviceAttribute::MaxSharedMemoryPerBlockOptIn));
  deviceArchitecture = unsigned(major * 10 + minor);
  deviceSharedBytes = uint32_t(shared);
  return Status();
}

Status CudaContext::memory(uint64_t &free, uint64_t &total) const {
  size_t freeBytes = 0, totalBytes = 0;
  TANDEM_RETURN_IF_ERROR(
      api->status(api->memGetInfo(&freeBytes, &totalBytes), "cuMemGetInfo"));
  free = freeBytes;
  total = totalBytes;
  return Status();
}

} // namespace tandem::cuda
