//===- Driver.h - The functions of the CUDA driver that checks use --------===//
//
// Opened by name, so that the program needs no CUDA toolkit.
//
//===----------------------------------------------------------------------===//

#ifndef TANDEM_TEST_CUDA_DRIVER_H
#define TANDEM_TEST_CUDA_DRIVER_H

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <type_traits>

namespace tandem::gpucheck {

using DevicePointer = uint64_t;

struct Driver {
  int (*init)(unsigned);
  int (*driverGetVersion)(int *);
  int (*deviceGet)(int *, int);
  int (*deviceGetName)(char *, int, int);
  int (*primaryContextRetain)(void **, int);
  int (*contextSetCurrent)(void *);
  int (*contextSynchronize)();
  int (*memAlloc)(DevicePointer *, size_t);
  int (*memFree)(DevicePointer);
  int (*copyToDevice)(DevicePointer, const void *, size_t);
  int (*copyToHost)(void *, DevicePointer, size_t);
  int (*memset)(DevicePointer, unsigned char, size_t);
  int (*moduleLoad)(void **, const void *, unsigned, int *, void **);
  int (*moduleGetFunction)(void **, void *, const char *);
  int (*functionSetAttribute)(void *, int, int);
  int (*functionGetAttribute)(int *, int, void *);
  int (*launchKernel)(void *, unsigned, unsigned, unsigned, unsigned, unsigned,
                      unsigned, unsigned, void *, void **, void **);
  int (*eventCreate)(void **, unsigned);
  int (*eventRecord)(void *, void *);
  int (*eventSynchronize)(void *);
  int (*eventElapsedTime)(float *, void *, void *);
  int (*getErrorName)(int, const char **);
  int (*streamCreate)(void **, unsigned);
  int (*streamDestroy)(void *);
  int (*streamBeginCapture)(void *, int);
  int (*streamEndCapture)(void *, void **);
  int (*graphInstantiate)(void **, void *, unsigned long long);
  int (*graphLaunch)(void *, void *);
  int (*graphExecDestroy)(void *);
  int (*graphDestroy)(void *);

  /// CUlaunchAttribute.
  struct LaunchAttribute {
    int id;
    int padding;
    union {
      int number;
      char bytes[64];
    };
  };
  /// CUlaunchConfig.
  struct LaunchConfig {
    unsigned grid[3], block[3], shared;
    void *stream;
    LaunchAttribute *attributes;
    unsigned attributeCount;
  };
  int (*launchKernelEx)(const LaunchConfig *, void *, void **, void **);

  /// Opens the driver or ends the program.
  Driver() {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (!library) {
      std::fprintf(stderr, "gpu-check: %s\n", dlerror());
      std::exit(1);
    }
    auto find = [&](auto &function, const char *name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(
          dlsym(library, name));
      if (!function) {
        std::fprintf(stderr, "gpu-check: the driver has no %s\n", name);
        std::exit(1);
      }
    };
    find(init, "cuInit");
    find(driverGetVersion, "cuDriverGetVersion");
    find(deviceGet, "cuDeviceGet");
    find(deviceGetName, "cuDeviceGetName");
    find(primaryContextRetain, "cuDevicePrimaryCtxRetain");
    find(contextSetCurrent, "cuCtxSetCurrent");
    find(contextSynchronize, "cuCtxSynchronize");
    find(memAlloc, "cuMemAlloc_v2");
    find(memFree, "cuMemFree_v2");
    find(copyToDevice, "cuMemcpyHtoD_v2");
    find(copyToHost, "cuMemcpyDtoH_v2");
    find(memset, "cuMemsetD8_v2");
    find(moduleLoad, "cuModuleLoadDataEx");
    find(moduleGetFunction, "cuModuleGetFunction");
    find(functionSetAttribute, "cuFuncSetAttribute");
    find(functionGetAttribute, "cuFuncGetAttribute");
    find(launchKernel, "cuLaunchKernel");
    find(eventCreate, "cuEventCreate");
    find(eventRecord, "cuEventRecord");
    find(eventSynchronize, "cuEventSynchronize");
    find(eventElapsedTime, "cuEventElapsedTime");
    find(getErrorName, "cuGetErrorName");
    find(streamCreate, "cuStreamCreate");
    find(streamDestroy, "cuStreamDestroy_v2");
    find(streamBeginCapture, "cuStreamBeginCapture_v2");
    find(streamEndCapture, "cuStreamEndCapture");
    find(graphInstantiate, "cuGraphInstantiateWithFlags");
    find(graphLaunch, "cuGraphLaunch");
    find(graphExecDestroy, "cuGraphExecDestroy");
    find(graphDestroy, "cuGraphDestroy");
    find(launchKernelEx, "cuLaunchKernelEx");
  }

  /// Ends the program when \p call has failed: what follows would fail too.
  void expect(int result, const char *call) const {
    if (result == 0)
      return;
    const char *name = "unknown";
    getErrorName(result, &name);
    std::fprintf(stderr, "gpu-check: %s: %s (%d)\n", call, name, result);
    std::fflush(stdout);
    std::_Exit(1);
  }
};

} // namespace tandem::gpucheck

#endif // TANDEM_TEST_CUDA_DRIVER_H
