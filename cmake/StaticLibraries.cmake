# Included by project() for builds whose binaries are taken to another machine:
# libraries are linked in, where there is a choice.
set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
# Where there is none, they lie beside the binary.
set(TANDEM_CARRIED ON)
