# cmake -DOUTPUT=file.cpp -DFILES=a.cuh,b.cuh -P EmbedFiles.cmake
#
# Writes the definition of getKernelFiles() (KernelFiles.h): the files as text.

string(REPLACE "," ";" FILES "${FILES}")
set(source "// Written by EmbedFiles.cmake.\n#include \"codegen/cuda/KernelFiles.h\"\n\n")
string(APPEND source "static const tandem::codegen::NvrtcHeader files[] = {\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  file(READ ${file} text)
  string(APPEND source "    {\"${name}\", R\"=====(${text})=====\"},\n")
endforeach()
string(APPEND source "};\n\nllvm::ArrayRef<tandem::codegen::NvrtcHeader>\n")
string(APPEND source "tandem::codegen::getKernelFiles() {\n  return files;\n}\n")
file(WRITE ${OUTPUT} "${source}")
